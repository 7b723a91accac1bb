"""A topic that its mirror does not carry stands by itself: the other tables, and the other sources, are waited for and come."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import dagster as dg
import pytest

from cdc_assets.capture import log_position
from cdc_assets.capture.log_position import CarriedPlace, CaughtUpTimeoutError, LogPosition, carry_to_lake
from cdc_assets.clients.databases.catalogue import SourceDatabase
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs import capture_assets
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.proof import caught_up, chain_status
from cdc_assets.proof.capture_flow import rows_without_records
from cdc_assets.proof.caught_up import wait_caught_up
from cdc_assets.registry.errors import DatabaseError, FailuresError, ServiceError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.delta_logs import append_bronze, write_silver
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic

RECORD = (b"k", b"{}")
RUNS = SimpleNamespace(running=True, state="RUNNING", failed=False, trace=[], tasks=["RUNNING"])
STOPPED = SimpleNamespace(running=False, state="STOPPED", failed=False, trace=[], tasks=[])
GOOD, BAD = "shop.public.orders", "shop.public.secret"


class Mirror:
    """MirrorMaker, which may read one of two topics; its connector runs from some look on."""

    url = "http://mirror"

    def __init__(self, starts: int = 0) -> None:
        self.looks, self.starts, self.copied = 0, starts, {GOOD: 2}

    def offsets(self, name: str) -> list[dict[str, Any]]:
        return [{"partition": {"topic": t, "partition": 0}, "offset": {"offset": at}} for t, at in self.copied.items()]

    def status(self, name: str) -> Any:
        self.looks += 1
        return RUNS if self.looks > self.starts else STOPPED


@pytest.fixture
def source() -> Source:
    database = {"kind": "postgresql", "host": "db", "dbname": "d", "user": "u", "password": {"secret": "p"}}
    tables = [{"name": "public.orders"}, {"name": "public.secret"}]
    return Source.model_validate({"source": "shop", "database": database, "tables": tables})


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    core = FakeKafka({name: FakeTopic("id", {0: [RECORD] * 3}) for name in (GOOD, BAD)})
    lake, found = FakeKafka({f"core.{GOOD}": FakeTopic("id", {0: [RECORD] * 3})}), Mirror()
    for name, answer in {"core_kafka": core, "lake_kafka": lake, "lake_connect": found, "core_connect": found}.items():
        monkeypatch.setattr(Platform, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(Platform, "database_if_any", lambda *_: object())
    monkeypatch.setattr(log_position, "_carry_to_core", lambda _: CarriedPlace("0/1", None))
    monkeypatch.setattr(log_position, "_FIRST_POLL_SECONDS", 0.01)
    monkeypatch.setattr(log_position, "_LONGEST_POLL_SECONDS", 0.01)
    monkeypatch.setattr(log_position, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(log_position, "_TOLD_SECONDS", 0.05)
    monkeypatch.setattr(log_position, "_STANDS_SECONDS", 0.15)
    append_bronze(tmp_path / "lake/bronze/shop", f"core.{GOOD}", "orders", "id", 0, 3, version=0)
    write_silver(tmp_path / "lake/silver/shop/orders", f"core.{GOOD}", "orders", "id", 3)
    return found


def _reached(error: CaughtUpTimeoutError) -> LogPosition:
    assert error.reached is not None
    return error.reached


def test_it_is_named_with_what_to_look_at_and_the_others_have_their_position(source: Source, mirror: Mirror) -> None:
    said: list[str] = []
    with pytest.raises(CaughtUpTimeoutError) as stands:
        carry_to_lake(Chain(Platform(), source), deadline=30, say=said.append)
    assert stands.value.topics == {BAD}
    assert (_reached(stands.value).lsn, _reached(stands.value).offsets) == ("0/1", {f"core.{GOOD}": {0: 3}})
    assert all(f"nothing new of {BAD} has come" in line and f"create and write core.{BAD} here?" in line for line in said)
    assert said


def test_a_connector_that_does_not_run_is_waited_for(source: Source, mirror: Mirror) -> None:
    """It says what it needs; that its topics stand is no news then."""
    mirror.starts = 10_000
    said: list[str] = []
    with pytest.raises(CaughtUpTimeoutError, match=r"shop-mirror did not follow; .*shop-mirror is STOPPED") as ended:
        carry_to_lake(Chain(Platform(), source), deadline=1, say=said.append)
    assert (ended.value.topics, ended.value.reached) == (frozenset(), None)
    assert {*said} == {"connector shop-mirror is STOPPED: ./cdc resume shop-mirror"}


def test_a_topic_that_may_not_be_read_is_named_at_once(source: Source, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whoever waits, who reads by the mirror's login: no minute is needed to know it."""

    class Denying(FakeKafka):
        def records_of(self, topics: Any, *, deadline: float = 0) -> Any:
            if BAD in topics:
                raise ServiceError.of_topic(BAD, self.bootstrap)
            return super().records_of(topics, deadline=deadline)

    core = Denying({name: FakeTopic("id", {0: [RECORD] * 3}) for name in (GOOD, BAD)})
    monkeypatch.setattr(Platform, "core_kafka", lambda *_: core)
    monkeypatch.setattr(log_position, "_TOLD_SECONDS", 900.0)
    said: list[str] = []
    with pytest.raises(CaughtUpTimeoutError) as stands:
        carry_to_lake(Chain(Platform(), source), deadline=30, say=said.append)
    assert (stands.value.topics, _reached(stands.value).offsets) == ({BAD}, {f"core.{GOOD}": {0: 3}})
    assert (
        said[0] == f"shop: topic {BAD} at fake:9092 may not be read: allow its login to read there (docs/how-to/kafka-login.md)"
    )


def test_one_that_goes_on_slowly_does_not_stand(source: Source, mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    began, more = time.monotonic(), [{GOOD: 2}, {GOOD: 2, BAD: 0}, {GOOD: 2, BAD: 1}, {GOOD: 2, BAD: 2}]
    monkeypatch.setattr(
        Platform, "lake_kafka", lambda *_: FakeKafka({f"core.{t}": FakeTopic("id", {0: [RECORD] * 3}) for t in (GOOD, BAD)})
    )

    def offsets(name: str) -> list[dict[str, Any]]:
        mirror.copied = more[min(3, int((time.monotonic() - began) / 0.1))]
        return Mirror.offsets(mirror, name)

    monkeypatch.setattr(mirror, "offsets", offsets)
    assert carry_to_lake(Chain(Platform(), source), deadline=30).offsets == {f"core.{t}": {0: 3} for t in (GOOD, BAD)}


def test_the_mirror_of_the_others_is_materialized(
    source: Source, mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied = SimpleNamespace(name="shop-mirror", summary="unchanged", status=None)
    for name, answer in {
        "judge_source": None,
        "bring_connector": applied,
        "metadata_of_applied": {},
        "metadata_of_status": {},
    }.items():
        monkeypatch.setattr(capture_assets, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(capture_assets, "mirror_config", lambda _: {})
    asset = capture_assets.build_mirror_assets(source)
    platform = PlatformResource(lake_root=str(tmp_path / "lake"))
    done = dg.materialize([asset], resources={"platform": platform}, raise_on_error=False)
    assert not done.success
    assert [event.asset_key for event in done.get_asset_materialization_events()] == [
        dg.AssetKey(["mirror", "shop", "mirror_orders"])
    ]
    (failure,) = done.filter_events(lambda event: event.is_step_failure)
    error = failure.step_failure_data.error
    assert f"nothing new of {BAD} has come to the lake" in str(error.cause or error)


def test_whoever_waits_for_all_has_the_others_and_is_told(
    source: Source, mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two sources one has a topic that stands; a third one's connector brings nothing at all."""
    monkeypatch.setenv("CDC_LAKE", str(tmp_path / "lake"))
    annex, away = (source.model_copy(update={"source": name}) for name in ("annex", "away"))
    reached = LogPosition("m", "0/1", {})

    def carry(chain: Chain[Source], **__: object) -> LogPosition:
        if chain.source.name == "away":
            raise CaughtUpTimeoutError("away-capture has failed")
        if chain.source.name == "annex":
            return reached
        others = LogPosition("m", "0/1", {f"core.{GOOD}": {0: 3}})
        raise CaughtUpTimeoutError("the topic stands", topics={BAD}, reached=others)

    monkeypatch.setattr(caught_up, "carry_or_tell", carry)
    monkeypatch.setattr(caught_up, "_silent_tables", lambda *_, **__: ())
    said: list[str] = []
    with pytest.raises(FailuresError, match="all others are done") as failed:
        wait_caught_up(Platform(), (away, source, annex), timeout=30, say=said.append)
    gone = "away-capture has failed"
    assert failed.value.failures == {"shop/secret": "the topic stands", "away/orders": gone, "away/secret": gone}
    assert sorted(said) == [
        f"away/2 tables: nobody waits for it any more: {gone}",
        "shop/secret: nobody waits for it any more: the topic stands",
    ]


@pytest.mark.all
def test_twenty_seven_of_twenty_eight_tables_are_fresh_and_the_one_is_named(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mirror may not read one topic. Everything else is at the source's place, for whoever waits and for `cdc status`."""
    database = {"kind": "postgresql", "host": "db", "dbname": "d", "user": "u", "password": {"secret": "p"}}
    shorts = [f"t{number:02}" for number in range(27)]
    declared = {"source": "wide", "database": database, "tables": [{"name": f"public.{t}"} for t in (*shorts, "bad")]}
    wide = Source.model_validate(declared)
    full = {f"wide.public.{short}": FakeTopic(short, {0: [RECORD] * 3}) for short in (*shorts, "bad")}
    mirror.copied = {f"wide.public.{short}": 2 for short in shorts}
    lake = {f"core.{name}": topic for name, topic in full.items() if not name.endswith("bad")}
    core = FakeKafka(full)
    monkeypatch.setattr(Platform, "core_kafka", lambda *_: core)
    monkeypatch.setattr(Platform, "lake_kafka", lambda *_: FakeKafka(lake))
    monkeypatch.setenv("CDC_LAKE", str(tmp_path / "wide"))
    for number, short in enumerate(shorts):
        append_bronze(tmp_path / "wide/bronze/wide", f"core.wide.public.{short}", short, short, 0, 3, version=number)
        write_silver(tmp_path / f"wide/silver/wide/{short}", f"core.wide.public.{short}", short, short, 3)
    monkeypatch.setattr(caught_up, "_silent_tables", lambda *_, **__: ())
    monkeypatch.setattr(caught_up, "carry_or_tell", lambda chain, **limits: carry_to_lake(chain, **limits))
    said: list[str] = []
    with pytest.raises(FailuresError, match="1 table failed, all others are done") as failed:
        wait_caught_up(Platform(), (wide,), timeout=30, say=said.append)
    assert failed.value.failures.keys() == {"wide/bad"}
    assert any(line.startswith("wide/bad: nobody waits for it any more: ") for line in said)

    monkeypatch.setattr(chain_status, "load_sources", lambda _: (wide,))
    monkeypatch.setattr(chain_status, "read_lost_snapshots", lambda *_: {})
    chains = {chain.table: chain for chain in chain_status.chain_status(Platform())}
    fresh = {table for table, chain in chains.items() if (chain.mirror_lag, chain.bronze_lag, chain.silver_lag) == (0, 0, 0)}
    assert fresh == {*shorts}
    assert (chains["bad"].mirror_lag, chains["bad"].silver_rows) == (2, None)


def test_a_table_that_may_not_be_read_ends_no_wait(source: Source) -> None:
    """`cdc up` ended by `permission denied for table`, with all other tables of the source carried."""

    class Database:
        def tables(self, ids: list[TableId]) -> dict[TableId, None]:
            return dict.fromkeys(ids)

        def counts(self, ids: list[TableId]) -> tuple[str, dict[TableId, int]]:
            if any(id_.table == "secret" for id_ in ids):
                raise DatabaseError("permission denied for table secret")
            return "", dict.fromkeys(ids, 3)

    silent = rows_without_records(source, cast(SourceDatabase, Database()), {})
    assert [(each.table.name, each.rows) for each in silent] == [("public.orders", 3)]
