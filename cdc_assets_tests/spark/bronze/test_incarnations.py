"""A source's server is restored, or its standby promoted: found, never gone on with in silence, and silver is what it is then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from cdc_assets.backup.backup_copy import BatchForm, backup_table
from cdc_assets.backup.verification import verify_backup
from cdc_assets.capture.incarnations import postgresql_incarnation as watch
from cdc_assets.chain.bronze_append import append, look
from cdc_assets.chain.new_epoch import apply_on_gap, open_epoch
from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.opened_store import open_store
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof.event_ledger import count_events, hops, places, read_windows
from cdc_assets.proof.volumetry import measure_transport
from cdc_assets.registry import names
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.registry.errors import RefusalError
from cdc_assets.stack.components.postgres_server import SUPERUSER
from cdc_assets.stack.loopback import HOST
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.live.live_source import NAME, LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain
from cdc_assets_tests.support.servers.own_server import OwnServer, own_server
from cdc_assets_tests.support.servers.standby import standby

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

SYNCED = "SELECT 1 FROM pg_replication_slots WHERE synced AND NOT temporary"


@pytest.fixture
def server(live: LiveSource, tmp_path: Path) -> Iterator[OwnServer]:
    with own_server(tmp_path, password=live.home.secret(NAME)) as server:
        yield server


@dataclass
class OwnChain:
    """The small chain, through what the assets call."""

    live: LiveSource
    server: OwnServer
    small: SmallChain
    store: Any

    def advance(self) -> list[dict[str, Any]]:
        """All that is delivered into bronze, silver and the backup; silver's rows."""
        platform, source = self.small.platform, self.small.source
        self.live.connect.wait_running(names.connector_name(source))
        self.live.delivered()
        self.small._copier.copy()
        append(Chain(platform, source), look(Chain(platform, source), source.tables), "test", print)
        self.small.fold()
        self.backup()
        return self.silver()

    def backup(self) -> None:
        bronze = names.bronze_path(self.small.platform.lake, self.small.source)
        backup_table(
            self.store, source=self.small.source.name, table="account", bronze_path=bronze, form=BatchForm(max_records=700)
        )

    def silver(self) -> list[dict[str, Any]]:
        return sorted(values(self.small.silver("account")), key=lambda row: int(row["id"]))

    def rows(self) -> list[dict[str, Any]]:
        """The oracle: the table itself."""
        with self.server.connection() as connection:
            found = connection.execute("SELECT id, v FROM account ORDER BY id").fetchall()
        return [{"id": row[0], "v": row[1]} for row in found]

    def look(self) -> watch.IdentityLook:
        return watch.look_and_note(Chain(self.small.platform, self.small.source))

    def everything_balances(self, epochs: int) -> None:
        """Topic = mirror = bronze, the backup of all epochs, the ledger, and rows at a cut."""
        platform, source = self.small.platform, self.small.source
        topic, bronze = names.lake_topic(source, source.tables[0]), names.bronze_path(platform.lake, source)
        committed = bronze_committed(bronze)
        assert committed is not None
        assert [past.epoch for past in committed.topics[topic].earlier] == list(range(epochs))
        transport = measure_transport(Chain(platform, source), source.tables, previous={})["account"]
        assert transport.equal, transport  # type: ignore[union-attr]
        report = verify_backup(self.store, source=source.name, table="account", bronze_path=bronze, deep=True)
        assert (report.differences, report.unfinished, report.behind) == ((), (), 0)
        assert report.records == committed.topics[topic].topic_records
        folders = {item.key.rsplit("/", 1)[-1].split("+")[1] for item in self.store.list(source.name + "/") if "+" in item.key}
        assert folders == {str(epoch) for epoch in range(epochs + 1)}
        count_events(Chain(platform, source), source.tables)
        place = places(platform.lake, source).get("account")
        assert place is not None
        # By day: the chain's copier does not keep the records' times, by which tombstones are placed.
        for hop in hops(read_windows(platform.lake, source, source.tables[0], window="1d"), place):
            assert hop.balanced, hop.sentence()
        result = self.small.compare()["account"]
        assert result.equal, result.sentence()


@pytest.fixture
def chain(
    live: LiveSource, server: OwnServer, remote: str, session: SparkSession, tmp_path: Path, case: str
) -> Iterator[OwnChain]:
    server.run(
        "CREATE TABLE account (id int PRIMARY KEY, v text)",
        "INSERT INTO account SELECT i, 'first' FROM generate_series(1, 900) i",
    )
    store = open_store(BackupStore(kind="local", bucket=str(tmp_path / "bucket")))
    store.create_bucket()
    own = replace(live, postgres=server.postgres, name=case)
    with small_chain(own, remote, session, tmp_path / "lake", ["public.account"]) as small:
        chain = OwnChain(own, server, small, store)
        chain.backup()
        assert chain.look().verdict.kind == "same"
        yield chain
        live.connect.delete(f"{own.name}-capture")


def change(server: OwnServer, word: str) -> None:
    server.run(
        f"UPDATE account SET v = '{word}' WHERE id BETWEEN 100 AND 300",
        "DELETE FROM account WHERE id < 50",
        f"INSERT INTO account SELECT i, '{word}' FROM generate_series(2000, 2400) i ON CONFLICT DO NOTHING",
    )


def restored_data_directory(chain: OwnChain, tmp_path: Path) -> None:
    """What the restore undid leaves silver, and stays in bronze and backup."""
    server = chain.server
    server.copy(tmp_path / "kept")
    change(server, "undone")
    assert chain.advance() == chain.rows()
    assert chain.look().verdict.kind == "same"
    server.put(tmp_path / "kept")
    # Its log soon is longer than what was read: positions alone tell nothing.
    server.run(
        "UPDATE account SET v = 'after' WHERE id BETWEEN 200 AND 220",
        "DELETE FROM account WHERE id BETWEEN 500 AND 510",
        "SELECT pg_switch_wal()",
        "INSERT INTO account VALUES (5000, 'after')",
    )
    found = chain.look()
    assert found.facts.wal > found.reached
    assert "the witness written at the last look" in found.verdict.reason
    platform, source = chain.small.platform, chain.small.source
    with pytest.raises(RefusalError, match=f"cdc repair source {source.name}"):
        apply_on_gap(Chain(platform, source), print)
    state = chain.live.connect.status(names.connector_name(source))
    assert state is not None
    assert state.state == "STOPPED"
    epochs = open_epoch(Chain(platform, source), found.verdict.reason, print)
    assert set(epochs.values()) == {1}
    chain.small.fold()
    assert chain.silver() == chain.rows()
    change(server, "later")
    assert chain.advance() == chain.rows()
    assert chain.look().verdict.kind == "same"
    chain.everything_balances(epochs=1)


def promoted_standby(chain: OwnChain, slot: str) -> None:
    """With its failover slot the connector goes on, in the same epoch; without it everything is read again in a new one."""
    server, source = chain.server, chain.small.source
    with standby(server, slots=True) as place:
        password = server.postgres.site.home.private("postgres_password")
        port = int(place.split(":")[1])
        with psycopg.connect(host=HOST, port=port, user=SUPERUSER, password=password, autocommit=True) as other:
            while slot == "kept" and not other.execute(SYNCED).fetchone():
                # The connector moves its slot on with each heartbeat.
                server.run("SELECT pg_log_standby_snapshot()")
                time.sleep(1)
            change(server, "before the failover")
            assert chain.advance() == chain.rows()
            server.part.stop()
            other.execute("SELECT pg_promote()")
            while (other.execute("SELECT pg_is_in_recovery()").fetchone() or (True,))[0]:
                time.sleep(0.1)
            other.execute("CHECKPOINT")
    server.put(server.postgres.data.parent / "standby")
    change(server, "after the failover")
    platform = chain.small.platform
    if slot == "kept":
        assert chain.look().verdict.kind == "continued"
        assert apply_on_gap(Chain(platform, source), print) == {}
        chain.live.connect.wait_running(names.connector_name(source))
    else:
        found = chain.look()
        assert "on timeline 2" in found.verdict.reason
        assert set(open_epoch(Chain(platform, source), found.verdict.reason, print).values()) == {1}
    assert chain.advance() == chain.rows()
    assert chain.look().verdict.kind == "same"
    chain.everything_balances(epochs=int(slot == "lost"))


CASES = {
    "restored": restored_data_directory,
    "promoted": lambda chain, _: promoted_standby(chain, "kept"),
    "promoted_without_slot": lambda chain, _: promoted_standby(chain, "lost"),
}


@pytest.mark.parametrize("case", CASES)
def test_silver_is_what_the_server_is_then(chain: OwnChain, case: str, tmp_path: Path) -> None:
    CASES[case](chain, tmp_path)
