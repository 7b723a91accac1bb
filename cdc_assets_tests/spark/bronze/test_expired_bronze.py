"""A lake whose bronze gives its records to the backup all the time, beside one that keeps them: what both make is equal."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from typing_extensions import override

from cdc_assets.backup.backup_copy import BatchForm, backup_table
from cdc_assets.backup.verification import verify_backup
from cdc_assets.capture.connectors.setting_overrides import PUBLIC as GAP
from cdc_assets.clients.delta_log import bronze_committed, bronze_floors, bronze_rows
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.spark_sessions import SparkSessions
from cdc_assets.recovery.maintenance import maintain_source
from cdc_assets.recovery.old_bronze_records import find_old_records
from cdc_assets.recovery.past_records import bring_back
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.recovery.object_damage import flip
from cdc_assets_tests.recovery.original import quietly
from cdc_assets_tests.support.declared import declare_source
from cdc_assets_tests.support.histories.acts import play, random_steps
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import ID_V, Lake, rows, values
from cdc_assets_tests.support.lake.ledger_records import ledger_spec
from cdc_assets_tests.support.lake.ledger_records import told as counted
from cdc_assets_tests.support.lake.replayed import told
from spark.errors import BronzeExpiredError
from spark.proof import ledger_job as ledger
from spark.silver import history_job as history
from spark.specs import SilverSpec
from spark.upkeep import replay_job as replay
from spark.upkeep.replay_spec import ReplaySpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Answer = TypeVar("Answer")
BEGIN, DAY = 1_800_000_000.0, 86_400.0
"""Lake's records are of 2026-01-01: a year old by then."""
SOURCE = """
source: source
database: {{kind: postgresql, host: localhost, dbname: shop, user: shop, password: {{secret: shop}}}}
backup: {{store: {{kind: local, bucket: {bucket}, prefix: lake}}}}
bronze: {{keep: 90d}}
tables: [{{name: public.t, history: scd2}}]
"""


class OneSession(SparkSessions):
    """The product's sessions, but for where they come from."""

    def __init__(self, session: SparkSession, bring_back: Callable[[BronzeExpiredError], bool]) -> None:
        super().__init__("sc://nobody", bring_back=bring_back)
        self._session = session

    @contextmanager
    @override
    def session(self, *, any_server: bool = False) -> Iterator[SparkSession]:
        yield self._session


@dataclass
class OwnChain:
    """A table from bronze to ledger. `expires`: bronze keeps only what the backup lacks, or somebody has still to read."""

    session: SparkSession
    root: Path
    source: Source
    expires: bool
    has_history: bool = True
    lake: Lake = field(init=False)
    spec: SilverSpec = field(init=False)
    days: int = 0
    expired: int = 0
    brought: int = 0

    def __post_init__(self) -> None:
        gone = "bronze gives its records away, and the lake beside it that keeps them is compared"
        self.lake = Lake(self.session, self.root, not_compared=gone if self.expires else "")
        table = self.source.tables[0]
        places = {
            "quarantine_path": names.quarantine_path(str(self.root), self.source, table),
            "past": names.past_path(str(self.root), self.source, table),
        }
        self.spec = replace(self.lake.spec("t", ID_V), **places)
        assert self.spec.path == names.silver_path(str(self.root), self.source, table)
        self.sessions = OneSession(self.session, self._bring_back)
        self.platform = Platform(lake_root=str(self.root))

    def _bring_back(self, error: BronzeExpiredError) -> bool:
        self.brought += 1
        assert (error.source, error.table) == ("source", "t")
        return bring_back(Chain(self.platform, self.source), self.source.tables[0], quietly) is not None

    @property
    def history(self) -> SilverSpec:
        return replace(self.spec, path=names.history_path(str(self.root), self.source, self.source.tables[0]))

    @property
    def ledger(self) -> str:
        return names.ledger_path(str(self.root), self.source)

    def run(self, job: Callable[[Any, Any], Answer], spec: Any) -> Answer:
        return self.sessions.run(job, spec)

    def step(self, ends: dict[int, int]) -> None:
        """All of the chain, up to these offsets."""
        self.lake.append(self.lake.ranges("t", ends))
        self.fold()

    def fold(self) -> None:
        self.run(lambda _, spec: self.lake.fold(spec), self.spec)
        if self.has_history:
            self.run(history.run, self.history)
        self.run(ledger.run, replace(ledger_spec(self.lake, self.spec), path=self.ledger))

    def back_up_and_expire(self) -> None:
        if not self.expires:
            return
        assert self.source.backup is not None
        store, bronze = self.platform.store(self.source.backup.store), self.lake.bronze_path
        backup_table(store, source="source", table="t", bronze_path=bronze, form=BatchForm(max_records=20))
        self.days += 1
        now = BEGIN + self.days * DAY
        ((_, done),) = maintain_source(
            Chain(self.platform, self.source), ["bronze/source"], lambda chain: find_old_records(chain, now)
        )
        assert done.given_up == {}
        self.expired += done.rows_removed
        assert verify_backup(store, source="source", table="t", bronze_path=bronze).ok

    def told(self) -> dict[str, Any]:
        """All that is made of bronze, and how many rows of it are counted."""
        committed = bronze_committed(self.lake.bronze_path)
        assert committed is not None
        fates, windows = counted(self.ledger)
        held = {key: count for key, count in bronze_rows(self.lake.bronze_path, committed.version, {}).items() if count}
        return {
            "silver": told(self.spec.path),
            "history": told(self.history.path) if self.has_history else [],
            "fates": {window: +found for window, found in fates.items() if +found},
            "windows": +windows,
            "bronze": held,
        }


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    (tmp_path / "bucket").mkdir()
    return declare_source(tmp_path, monkeypatch, SOURCE.format(bucket=tmp_path / "bucket"), Source)


@pytest.fixture
def thin(session: SparkSession, tmp_path: Path, source: Source) -> OwnChain:
    return OwnChain(session, tmp_path / "thin", source, expires=True)


@pytest.mark.all
@pytest.mark.parametrize("seed", [7, *range(100, 112)])
def test_it_makes_the_same(session: SparkSession, tmp_path: Path, source: Source, thin: OwnChain, seed: int) -> None:
    """Replays of a connector, snapshots and moved keys included: late events ask for what is gone."""
    choice = random.Random(seed)
    whole = OwnChain(session, tmp_path / "whole", source, expires=False)
    worlds = [play(random_steps(choice), first_key=100 * number) for number in range(3)]
    for partition, (_, connector) in enumerate(worlds):
        for chain in (thin, whole):
            chain.lake.put("t", *connector.records, partition=partition)
    ends, at = [connector.next_offset for _, connector in worlds], [0, 0, 0]
    while at != ends:
        at = [min(end, now + choice.choice([0, end // 3, end // 2])) for now, end in zip(at, ends, strict=True)]
        if not any(at):
            continue
        for chain in (thin, whole):
            chain.step(dict(enumerate(at)))
            chain.back_up_and_expire()
        assert thin.told() == whole.told()
    expected = sorted((row["id"], row["v"]) for database, _ in worlds for row in database.rows.values())
    assert sorted((row["id"], row["v"]) for row in values(thin.spec.path)) == expected
    assert thin.expired
    assert _rows_left(thin) < _rows_left(whole)
    for chain in (thin, whole):
        _make_again(chain)
    assert thin.brought
    assert not whole.brought
    assert thin.told() == whole.told()


def _rows_left(chain: OwnChain) -> int:
    return len(rows(chain.lake.bronze_path))


def _make_again(chain: OwnChain) -> None:
    """A replay of both tables, a proof of the history, and the ledger counted anew."""
    asked = ReplaySpec(chain.spec, chain.history, str(chain.root / "replay" / "once"))
    prepared = chain.run(replay.prepare, asked)
    assert prepared.is_empty, prepared.differences
    chain.run(replay.swap, asked)
    chain.run(ledger.run, replace(ledger_spec(chain.lake, chain.spec, again=True), path=chain.ledger))


def _rows(start: int, count: int) -> list[Record]:
    return [event(n, {"id": n, "v": f"v{n}"}) for n in range(start, start + count)]


@pytest.mark.all
def test_a_late_event_above_all_that_is_gone_asks_for_nothing(session: SparkSession, tmp_path: Path, source: Source) -> None:
    """Silver and the ledger find all in the log; an event from below asks for the rest."""
    table = source.tables[0].model_copy(update={"history": "scd1"})
    thin = OwnChain(session, tmp_path / "thin", source.model_copy(update={"tables": (table,)}), expires=True, has_history=False)
    thin.lake.put("t", *_rows(0, 30))
    thin.step({0: 30})
    thin.back_up_and_expire()
    assert thin.expired == 30
    part, late, older = (event(n, {"id": 3, "v": v}, op="u") for n, v in ((37, GAP), (35, "late"), (20, "older")))
    thin.lake.put("t", *_rows(30, 5), Record(35, part.key, part.value), event(36, {"id": 4, "v": "new"}, op="u"))
    thin.step({0: 37})
    thin.lake.put("t", Record(37, late.key, late.value))
    thin.step({0: 38})
    expected = {n: f"v{n}" for n in range(35)} | {3: "late", 4: "new"}  # what the part had carried on is of the late event
    assert {row["id"]: row["v"] for row in values(thin.spec.path)} == expected
    assert sum(thin.told()["fates"].values(), Counter()) == {"applied": 37, "older": 1}
    assert thin.brought == 0
    thin.lake.put("t", Record(38, older.key, older.value))
    thin.step({0: 39})
    assert thin.brought == 1
    assert {row["id"]: row["v"] for row in values(thin.spec.path)} == expected
    assert sum(thin.told()["fates"].values(), Counter()) == {"applied": 37, "older": 2}


@pytest.mark.all
def test_a_damaged_object_stops_who_asks_for_it(thin: OwnChain, source: Source, tmp_path: Path) -> None:
    """Silver, history and ledger stay as they are, and the object is named."""
    thin.lake.put("t", *_rows(0, 30))
    thin.step({0: 30})
    thin.back_up_and_expire()
    assert thin.expired == 30
    before = thin.told()
    broken = sorted((tmp_path / "bucket/lake/source/t").rglob("*.gz"))[0]
    flip(broken)
    late = event(3, {"id": 3, "v": "late"}, op="u")
    thin.lake.put("t", Record(30, late.key, late.value))
    thin.lake.append(thin.lake.ranges("t", {0: 31}))
    with pytest.raises(RefusalError, match=broken.name.replace("+", r"\+")):
        thin.run(lambda _, spec: thin.lake.fold(spec), thin.spec)
    assert {**thin.told(), "bronze": before["bronze"]} == before
    flip(broken)
    thin.fold()
    assert thin.brought == 2
    assert {row["id"] for row in values(thin.spec.path)} == set(range(30))


@pytest.mark.all
def test_without_a_way_back_it_says_the_command(thin: OwnChain, session: SparkSession) -> None:
    """As whoever submits a job himself has it."""
    thin.lake.put("t", *_rows(0, 10))
    thin.step({0: 10})
    thin.back_up_and_expire()
    assert bronze_floors(thin.lake.bronze_path)["core.source.public.t"].records == 10
    asked = ReplaySpec(thin.spec, None, str(thin.root / "replay" / "once"))
    with pytest.raises(BronzeExpiredError, match="the first 10 records of .* cdc restore source t --past"):
        replay.prepare(session, asked)
