"""Which server is another incarnation, told by real ones: restored from their files, promoted with and without the slot."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from cdc_assets.capture.connectors.postgresql_connector import capture_config
from cdc_assets.capture.incarnations.postgresql_incarnation import StartsTable, log_end, remember
from cdc_assets.capture.incarnations.server_facts import (
    IncarnationDatabase,
    Known,
    Memory,
    Opening,
    ServerFacts,
    WitnessRows,
    forks,
    lsn_bytes,
)
from cdc_assets.capture.incarnations.server_verdict import place_of_reading, server_verdict
from cdc_assets.registry import settings
from cdc_assets.registry.databases import Database
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import Source
from cdc_assets.stack.components.postgres_server import SUPERUSER
from cdc_assets.stack.loopback import HOST
from cdc_assets_tests.support.live.live_source import NAME
from cdc_assets_tests.support.servers.own_server import OwnServer, own_server
from cdc_assets_tests.support.servers.standby import standby

WITNESS = TableId("cdc_assets", "witness_shop")
SLOT = "SELECT pg_create_logical_replication_slot('cdc_shop', 'pgoutput', false, false, true)"

SYNCED = "SELECT 1 FROM pg_replication_slots WHERE synced AND NOT temporary"
ADVANCE = "SELECT pg_replication_slot_advance('cdc_shop', pg_current_wal_lsn())"

pytestmark = pytest.mark.service


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnServer]:
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    with own_server(tmp_path) as server:
        monkeypatch.setenv("CDC_SECRET_LIVE", server.postgres.site.home.secret(NAME))
        yield server


class Asked:
    """The source, and what one home remembers of it."""

    def __init__(self, server: OwnServer, user: str = NAME, home: Path | None = None) -> None:
        self.home = home or settings.home()
        port = server.postgres.site.ports["postgres"]
        database = {"kind": "postgresql", "host": HOST, "port": port, "dbname": NAME, "user": user, "password": {"secret": user}}
        self.source = Source.model_validate({"source": "shop", "database": database, "tables": [{"name": "public.t"}]})
        assert isinstance(self.source.database, Database)
        self.database = IncarnationDatabase(self.source.database)

    def facts(self) -> ServerFacts:
        return self.database.facts("cdc_shop", WITNESS)

    def remember(self) -> int:
        return self.take()

    def take(self, **how: bool) -> int:
        facts = self.facts()
        with self.at_home():
            assert remember(self.database, self.source, Memory.of("shop"), facts, **how)
        return facts.wal

    def log_end(self) -> str:
        with self.at_home():
            return log_end(self.source)

    def verdict(self, reached: int) -> tuple[str, str]:
        with self.at_home():
            known = Memory.of("shop").known
        found = server_verdict(known, self.facts(), reached=reached, captured=True)
        return found.kind, found.reason

    @contextmanager
    def at_home(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("CDC_HOME", str(self.home))
            yield


def test_a_role_that_may_neither_replicate_nor_create(server: OwnServer) -> None:
    """It is told by SQL, without earlier timelines, and there is no witness."""
    asked = Asked(server)
    server.run("CREATE ROLE plain LOGIN PASSWORD 'plain'", "GRANT CONNECT ON DATABASE live TO plain")
    plain = Asked(server, user="plain")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDC_SECRET_PLAIN", "plain")
        told, known = plain.facts(), asked.facts()
        assert not told.writable
        assert (told.system, told.timeline, told.wal, told.forks) == (known.system, known.timeline, known.wal, {})
        assert not remember(plain.database, plain.source, Memory.of("plain"), told)
        # What a connector does on each connection: before there is a table, as a role that may not, and as its own.
        statement = capture_config(asked.source)["database.initial.statements"].replace(";;", ";").encode()
        noted, place = StartsTable(asked.source.database), TableId("cdc_assets", "starts_shop")  # type: ignore[arg-type]
        server.run(SLOT)
        with asked.database.connection() as own, plain.database.connection() as other:
            own.execute(statement)
            assert noted.read(place) == ()
            asked.remember()
            other.execute(statement)
            assert noted.read(place) == ()
            own.execute(statement)
            own.execute(statement)
            slot = own.execute("SELECT confirmed_flush_lsn::text FROM pg_replication_slots").fetchone()[0]
        (start,) = noted.read(place)
        assert start.slot == lsn_bytes(slot)
        noted.forget(place, [start])
        assert noted.read(place) == ()


def test_restored_from_its_files(server: OwnServer, tmp_path: Path) -> None:
    asked = Asked(server)
    server.run(SLOT, "CREATE TABLE t (id int)")
    asked.remember()
    server.copy(tmp_path / "kept")
    reached = asked.remember()
    assert asked.verdict(reached) == ("same", "")
    server.run("INSERT INTO t SELECT generate_series(1, 1000)")
    later = asked.remember()
    server.put(tmp_path / "kept")
    kind, reason = asked.verdict(later)
    assert kind == "other"
    assert "its log ends at" in reason
    server.run("INSERT INTO t SELECT generate_series(1, 9000)")
    assert asked.facts().wal > later
    kind, reason = asked.verdict(later)
    assert (kind, reason.split(" (")[0]) == ("other", "the witness written at the last look")
    server.run("DROP TABLE cdc_assets.witness_shop")
    assert asked.verdict(later)[0] == "other"


def test_several_homes_look_at_one_source(server: OwnServer, tmp_path: Path) -> None:
    """None takes the look of another for a restore; a restore is one for each, until one of them has opened an epoch."""
    homes = [Asked(server), Asked(server, home=tmp_path / "other")]
    server.run(SLOT, "CREATE TABLE t (id int)")
    for _ in range(100):
        for home in homes:
            assert home.verdict(0) == ("same", "")
            home.remember()
    # A copy of a home counts in the row of the first.
    shutil.copytree(homes[1].home, tmp_path / "copy")
    copies = [homes[1], Asked(server, home=tmp_path / "copy")]
    server.copy(tmp_path / "kept")
    for home in (*copies, homes[0], *copies, *copies):
        assert home.verdict(0) == ("same", "")
        home.remember()
    server.put(tmp_path / "kept")
    newcomer = Asked(server, home=tmp_path / "new")
    for _ in range(20):
        newcomer.remember()
    everybody = [homes[0], *copies]
    for home in everybody:
        kind, reason = home.verdict(0)
        assert (kind, reason.split(" (")[0], " is an older one, with " in reason) == (
            "other",
            "the witness written at the last look",
            True,
        )
    server.copy(tmp_path / "restored")
    homes[0].take(opens_epoch=True)
    for home in (*everybody, newcomer):
        assert home.verdict(0) == ("same", "")
        home.remember()
    server.put(tmp_path / "restored")
    assert {home.verdict(0)[0] for home in (*everybody, newcomer)} == {"other"}


def test_an_event_from_beyond_the_log_is_no_restore(server: OwnServer, tmp_path: Path) -> None:
    """Somebody has written it into a topic: the witness shows the server that was read. Without one, and once it is restored,
    it stays a server whose log is too short."""
    asked = Asked(server)
    server.run(SLOT, "CREATE TABLE t (id int)")
    assert place_of_reading(1, 1 << 62, None, asked.facts()) == 1 << 62
    asked.remember()
    server.copy(tmp_path / "kept")
    read = asked.remember()
    known = Memory.of("shop").known
    assert place_of_reading(read, 1 << 62, known, asked.facts()) == read
    assert asked.verdict(read) == ("same", "")
    # What bronze had by now lies before this end; of a restored server no end is told.
    assert read <= int(asked.log_end(), 16) <= asked.facts().wal
    assert place_of_reading(1 << 61, 1 << 62, known, asked.facts()) == 1 << 62
    server.put(tmp_path / "kept")
    assert place_of_reading(1, 1 << 62, known, asked.facts()) == 1 << 62
    assert asked.log_end() == ""


@pytest.mark.parametrize("slots", [True, False])
def test_a_promoted_standby(server: OwnServer, slots: bool) -> None:
    asked = Asked(server)
    server.run("CREATE TABLE t (id int)", SLOT if slots else SLOT.replace("true", "false"))
    asked.remember()
    with standby(server, slots=slots) as place:
        reached = asked.remember()
        password = server.postgres.site.home.private("postgres_password")
        with psycopg.connect(
            host=HOST, port=int(place.split(":")[1]), user=SUPERUSER, password=password, autocommit=True
        ) as other:
            _until(other, f"SELECT pg_last_wal_replay_lsn() >= '0/0'::pg_lsn + {reached}")
            while slots and not other.execute(SYNCED).fetchone():
                # As a connector does while it reads: a slot is kept elsewhere once it is past what the standby holds.
                server.run("SELECT pg_log_standby_snapshot()", ADVANCE)
                time.sleep(0.2)
            server.part.stop()
            other.execute("SELECT pg_promote()")
            _until(other, "SELECT NOT pg_is_in_recovery()")
            other.execute("CHECKPOINT")
    server.put(server.postgres.data.parent / "standby")
    facts = asked.facts()
    assert (facts.timeline, list(facts.forks)) == (2, [1])
    kind, reason = asked.verdict(reached)
    if slots:
        assert (kind, reason.endswith("and the slot came with it")) == ("continued", True)
        # What it never had cannot be continued.
        kind, reason = asked.verdict(facts.forks[1] + 1)
        assert (kind, "it lacks what lies between" in reason) == ("other", True)
        # A slot made by a connector after the promotion is at the wrong place.
        server.run("SELECT pg_drop_replication_slot('cdc_shop')", SLOT)
        assert asked.verdict(reached)[1].endswith("it was made after the promotion")
    else:
        assert kind == "other"
        assert "its replication slot is gone" in reason


def _until(connection: psycopg.Connection, question: str) -> None:
    until = time.monotonic() + 300
    while (connection.execute(question.encode()).fetchone() or (False,))[0] is not True:
        assert time.monotonic() < until, question
        time.sleep(0.1)


FACTS = ServerFacts("7", 1, 1000, {}, {"synced": False, "wal_status": "reserved"}, WitnessRows({5: 9}, 2))
KNOWN = Known("7", 1, "2026-01-01", home=5, looks=9, epochs=2)


@pytest.mark.parametrize(
    ("facts", "known", "reached", "expected"),
    [
        (FACTS, KNOWN, 900, "same"),
        (FACTS, None, 900, "same"),
        (replace(FACTS, witness=WitnessRows({5: 10}, 2)), KNOWN, 900, "same"),
        (replace(FACTS, witness=WitnessRows({5: 8}, 2)), KNOWN, 900, "other"),
        (replace(FACTS, witness=WitnessRows({6: 9}, 2)), KNOWN, 900, "other"),
        (replace(FACTS, witness=WitnessRows({5: 9}, 1)), KNOWN, 900, "other"),
        (replace(FACTS, witness=WitnessRows({5: 1}, 3)), KNOWN, 900, "same"),
        (replace(FACTS, system="8", witness=WitnessRows({}, 3)), KNOWN, 900, "same"),
        (replace(FACTS, witness=None), KNOWN, 900, "other"),
        (replace(FACTS, witness=None), replace(KNOWN, looks=0), 900, "same"),
        (FACTS, KNOWN, 1001, "other"),
        (replace(FACTS, system="8"), KNOWN, 900, "other"),
        (replace(FACTS, slot=None), KNOWN, 900, "other"),
        (replace(FACTS, slot={"invalidation_reason": "wal_removed"}), KNOWN, 900, "other"),
        (replace(FACTS, timeline=3, forks={2: 950}), KNOWN, 900, "other"),
        (replace(FACTS, timeline=1), replace(KNOWN, timeline=2), 900, "other"),
        (replace(FACTS, timeline=2, forks={1: 950}, slot={"synced": True}), KNOWN, 950, "continued"),
        (replace(FACTS, timeline=2, forks={1: 950}, slot={"synced": True}), KNOWN, 951, "other"),
    ],
)
def test_rules(facts: ServerFacts, known: Known | None, reached: int, expected: str) -> None:
    assert server_verdict(known, facts, reached=reached, captured=True).kind == expected


@pytest.mark.parametrize(("stored", "expected"), [(None, "same"), (0x300, "same"), (0x301, "same"), (0x2FF, "other")])
def test_a_slot_ahead_of_all_that_was_read(stored: int | None, expected: str) -> None:
    facts = replace(FACTS, slot={**(FACTS.slot or {}), "confirmed_flush_lsn": "0/300"})
    for known in (KNOWN, None):
        assert server_verdict(known, facts, reached=0x100, captured=True, stored=stored).kind == expected
    found = server_verdict(KNOWN, facts, reached=0x100, captured=True, stored=0x2FF)
    assert found.kind == "other"
    assert "its replication slot is at 0/300, and 0/2FF is the last that was read" in found.reason
    assert server_verdict(KNOWN, facts, reached=0x100, captured=False, stored=0).kind == "same"


def test_the_history_of_timelines() -> None:
    text = "1\t0/3000158\tno recovery target specified\n\n2\t16/B374D848\tbefore 2026-01-01\n"
    assert forks(text) == {1: 0x3000158, 2: 0x16B374D848}
    assert lsn_bytes("16/B374D848") == 0x16B374D848


def test_the_memory_is_what_was_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    memory = Memory.of("shop")
    assert (memory.known, memory.opening) == (None, None)
    memory.known, memory.opening = KNOWN, Opening("why", ["stop"], {"topic": {0: 7, 1: 0}}, {"topic": 1})
    memory.save()
    again = Memory.of("shop")
    assert (again.known, again.opening) == (memory.known, memory.opening)
