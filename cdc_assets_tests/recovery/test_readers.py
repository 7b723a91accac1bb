"""Whoever reads our own commits gets the same answer after checkpoints, expiry of the log and compaction; no service runs.

The tables have commits of maintenance behind their newest word of ours, more than any reader looks at first. Rows are read by
delta-rs, which knows nothing of our commits.
"""

from __future__ import annotations

import os
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_assets.backup.backup_position import backup_position
from cdc_assets.backup.verification import verify_backup
from cdc_assets.chain.lag import records_behind
from cdc_assets.chain.quarantine import QuarantineFilter, quarantine_records
from cdc_assets.chain.windowed_results import is_behind, windows_of
from cdc_assets.clients import delta_log
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.clients.opened_store import open_store
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof.event_ledger import read_windows
from cdc_assets.recovery.cut_manifest import CutEntry, CutManifest, keep_cut, name_of_cut, read_cuts
from cdc_assets.recovery.maintenance import maintain_source
from cdc_assets.registry import names
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.recovery.ledger_rows import append, window
from cdc_assets_tests.recovery.original import TABLES, Original, fill, rows
from cdc_assets_tests.recovery.shop_logs import write
from cdc_assets_tests.support.declared import declare_source
from spark.errors import JobRefusedError
from spark.proof.ledger_contract import Counted, fold_ledger, ledger_metadata
from spark.silver.quarantine_table import COLUMNS
from spark.specs import Column, SilverSpec
from spark.table.commit_metadata import Folded, fold, silver_metadata
from spark.table.delta_table import table_of
from spark.upkeep import file_rewrite
from spark.upkeep.file_rewrite import rows_gone
from spark.upkeep.replay_job import ReplayMark, Undo, newest_mark, newest_version, undo
from spark.upkeep.window_results import KeptResults, read_kept_results, state_of_results

SOURCE = """
source: shop
database: {kind: postgresql, host: db, dbname: shop, user: u, password: {secret: shop}}
tables:
  - {name: public.orders, history: scd2, windows: [{name: daily, event_time: at, size: 1d, measures: {n: count}}]}
  - {name: public.customers}
"""
BEHIND = 60
TIMES = ("first_seen", "redriven_at", "dropped_at", "timestamp")
NUMBERS = {"partition": pa.int32(), "offset": pa.int64(), "epoch": pa.int32(), "schema_id": pa.int32(), "built_on": pa.int64()}
NO_SPARK: Any = None


class Lake:
    """All kinds of tables of a source, and what their logs say."""

    def __init__(self, folder: Path, source: Source) -> None:
        self.root, self.source = str(folder / "lake"), source
        self.bronze = names.bronze_path(self.root, source)
        self.original = Original(self.bronze)
        self.store: ObjectStore = open_store(BackupStore(kind="local", bucket=str(folder / "bucket")))
        self.store.create_bucket()

    def path(self, layer: str, table: str = "orders") -> str:
        return str(getattr(names, f"{layer}_path")(self.root, self.source, self.source.table(table)))

    @property
    def paths(self) -> list[str]:
        return [str(log.parent) for log in sorted(Path(self.root).rglob("_delta_log"))]

    def fold(self, layer: str, table: str = "orders", *, replay: ReplayMark | None = None) -> Folded:
        """All that bronze has of the table, as one commit."""
        committed = self.original.committed()
        folded = Folded(committed.version, committed.of_table(table), quarantined=1, truncated="0000.01")
        text = silver_metadata(f"{layer}-{committed.version}", folded, {}, replay=replay.to_dict() if replay else None)
        write(Path(self.path(layer, table)), text)
        return folded

    def grow(self) -> None:
        fill(self.original)
        for number in range(6):
            self.original.append("orders", rows(909 + 10 * number, 10))
            for table in TABLES:
                self.fold("silver", table)
            self.fold("history")
        self.original.back_up(self.store, *TABLES)
        self.quarantine()
        DeltaTable(self.path("silver")).create_checkpoint()
        self.fold("silver")
        self.keep_cut()
        mark = ReplayMark("one", {"silver": newest_version(self.path("silver")), "history": 3}, done=True)
        self.fold("history", replay=ReplayMark("one", {"history": 3}))
        self.fold("silver", replay=mark)
        self.fold("silver")
        # What came since is void, the replay is not.
        DeltaTable(self.path("silver")).restore(newest_version(self.path("silver")) - 1)
        self.count()
        self.windows()

    def quarantine(self) -> None:
        facts = dict.fromkeys(COLUMNS) | {
            "topic": "t",
            "partition": 0,
            "offset": 3,
            "value": b"x",
            "error_class": "Odd",
            "epoch": 0,
        }
        kinds = {**dict.fromkeys(("key", "value"), pa.binary()), **dict.fromkeys(TIMES, pa.timestamp("us", "UTC")), **NUMBERS}
        schema = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
        for number in range(4):
            write_deltalake(
                self.path("quarantine"), pa.Table.from_pylist([{**facts, "offset": number}], schema=schema), mode="append"
            )

    def keep_cut(self) -> None:
        made_at, path = datetime.now(timezone.utc), self.path("silver")
        version, own = newest_version(path), str(DeltaTable(path).metadata().id)
        entry = CutEntry("silver", "orders", "silver/shop/orders", version, own, rows=7, quarantined=1, topics={})
        cut = CutManifest(name_of_cut("shop", made_at), "shop", made_at, "0", (entry,))
        keep_cut(self.root, self.source, cut, timedelta(days=30))

    def count(self) -> None:
        path = names.ledger_path(self.root, self.source)
        append(path, [window(int(time.time()) // 60 * 60 - 60 * n) for n in range(5)])
        counted = {}
        for table in TABLES:
            folded = delta_log.silver_committed(self.path("silver", table))
            assert folded is not None
            counted[table] = Counted(folded.version, folded.operation_id, folded.topics)
        append(path, [window(int(time.time()) // 60 * 60)], ledger_metadata("all", counted))

    def windows(self) -> None:
        (windows,) = windows_of(self.source)
        told = KeptResults(newest_version(self.path("silver")), "mark", 5, windows.spec(self.root).digest, "w")
        for path in (windows.spec(self.root).path, windows.spec(self.root).panes_path):
            write(Path(path), told.to_metadata())

    def stay_idle(self) -> None:
        """Weeks with commits of maintenance alone, and all of it long ago."""
        for path in self.paths:
            for version in range(first := newest_version(path) + 1, first + BEHIND):
                table_of(path).put(version, [file_rewrite.own_commit_info("OPTIMIZE", {})])
        for file in Path(self.root).rglob("*"):
            os.utime(file, (time.time() - 864_000,) * 2)

    def rows(self) -> dict[str, list[str]]:
        return {path: sorted(map(repr, DeltaTable(path).to_pyarrow_table().to_pylist())) for path in self.paths}

    def answers(self) -> dict[str, Any]:
        """Of the parts that watch, those that work, and what they build on."""
        delta_log._KEPT.clear()
        committed = delta_log.bronze_committed(self.bronze)
        assert committed is not None
        (windows,) = windows_of(self.source)
        path, ends = windows.spec(self.root).path, {topic: state.positions for topic, state in committed.topics.items()}
        by_job = table_of(self.bronze).fold(fold)
        told: dict[str, Any] = {
            "bronze": (committed.topics, by_job.topics),
            "rows of bronze": delta_log.bronze_rows(self.bronze, committed.version, dict.fromkeys(committed.topics, 0)),
            "rows below": {t: delta_log.bronze_rows_below(self.bronze, t, {0: end}) for t, end in ends.items()},
            "ledger": delta_log.ledger_counted(names.ledger_path(self.root, self.source)),
            "ledger's job": table_of(names.ledger_path(self.root, self.source)).fold(fold_ledger).tables,
            "windows": (read_kept_results(path), state_of_results(NO_SPARK, windows.spec(self.root))),
            "cuts": read_cuts(self.root, self.source),
            "quarantine": [
                each.to_json(raw=True)
                for each in quarantine_records(
                    self.root, self.source, self.source.table("orders"), QuarantineFilter(every_state=True), raw=True
                )
            ],
        }
        for table in TABLES:
            told[table] = self._of_table(table, committed.topics[f"core.shop.public.{table}"])
        return told

    def _of_table(self, table: str, bronze: Any) -> dict[str, Any]:
        silver, declared = self.path("silver", table), self.source.table(table)
        state, position = delta_log.silver_state(silver), backup_position(self.store, source="shop", table=table)
        report = verify_backup(self.store, source="shop", table=table, bronze_path=self.bronze, deep=True)
        past = self.path("history", table) if declared.history == "scd2" else silver
        assert state is not None
        assert state.folded is not None
        return {
            "silver": (delta_log.silver_committed(silver), table_of(silver).silver_folded(), state.folded, state.rows),
            "history": (delta_log.silver_committed(past), table_of(past).silver_folded()),
            "that folded": delta_log.version_that_folded(silver, state.folded) == state.version,
            "last fold": next(delta_log.versions_of_folds(silver))[1],
            "marks": (newest_mark(silver), newest_mark(past)),
            "behind": records_behind(self.root, self.source, declared, bronze),
            "backup": (position.positions, position.records, report.differences, report.behind),
            "counted": read_windows(self.root, self.source, declared),
        }


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    monkeypatch.setattr(file_rewrite, "MOST_SMALL", 1)
    return Lake(tmp_path, declare_source(tmp_path, monkeypatch, SOURCE, Source))


@pytest.mark.slow
def test_readers_say_the_same(lake: Lake) -> None:
    lake.grow()
    before, rows_before = lake.answers(), lake.rows()
    cut = before["cuts"][0].entries[0]
    at_cut = sorted(map(repr, DeltaTable(lake.path("silver"), version=cut.version).to_pyarrow_table().to_pylist()))
    assert before["orders"]["marks"][0].done
    assert before["ledger"].keys() == set(TABLES)
    assert len(before["quarantine"]) == 4
    assert before["orders"]["behind"] == 0
    lake.stay_idle()
    assert lake.answers() == before
    for _ in range(2):
        done = {table.name: result for table, result in maintain_source(Chain(Platform(), lake.source))}
        assert {name: result.given_up for name, result in done.items() if result.given_up} == {}
        assert {f"{lake.root}/{name}" for name in done} == set(lake.paths), "a table that nobody maintains"
        for file in Path(lake.root).rglob("*"):
            os.utime(file, (time.time() - 864_000,) * 2)
    assert all(min(map(_version, Path(path, "_delta_log").glob("*.json"))) > 0 for path in (lake.bronze, lake.path("silver")))
    assert not any(rows_gone(file) for path in lake.paths for file in table_of(path).snapshot().files.values())
    assert lake.answers() == before
    assert lake.rows() == rows_before
    found = DeltaTable(lake.path("silver"), version=cut.version).to_pyarrow_table().to_pylist()
    assert sorted(map(repr, found)) == at_cut
    (windows,) = windows_of(lake.source)
    assert is_behind(lake.root, windows), "a rewritten silver is another version"
    # The history's version before the replay is older than time travel: nothing of the tables goes back.
    spec = SilverSpec("shop", "orders", lake.bronze, lake.path("silver"), (Column("id", "bigint"),), ("id",))
    with pytest.raises(JobRefusedError, match=r"__history does not go back to version 3: .* Nothing is changed"):
        undo(NO_SPARK, Undo(spec, lake.path("history")))

    # Whoever goes on, goes on from there: no record twice, none left out, in bronze and in the backup.
    lake.original.append("orders", rows(969, 30))
    assert records_behind(lake.root, lake.source, lake.source.table("orders"), committed_state(lake)) == 30
    lake.original.back_up(lake.store, *TABLES)
    report = verify_backup(lake.store, source="shop", table="orders", bronze_path=lake.bronze, deep=True)
    assert (report.differences, report.behind) == ((), 0)


def test_a_version_that_is_kept_tells_what_it_held(lake: Lake) -> None:
    """An old fold, then a rewriting and its checkpoint: whoever goes back to that finds the fold; and so in bronze."""
    fill(lake.original)
    then = lake.fold("silver")
    before = delta_log.silver_committed(lake.path("silver"))
    committed = lake.original.committed()
    back = {}
    for path in (lake.bronze, lake.path("silver")):
        for version in range(first := newest_version(path) + 1, first + 30):
            table_of(path).put(version, [file_rewrite.own_commit_info("OPTIMIZE", {})])
        DeltaTable(path).create_checkpoint()
        back[path] = version
    for file in Path(lake.root).rglob("*"):
        os.utime(file, (time.time() - 864_000,) * 2)
    lake.original.append("orders", rows(909, 10))
    lake.fold("silver")
    done = {table.name: result for table, result in maintain_source(Chain(Platform(), lake.source))}
    assert all(done[name].given_up == {} for name in ("bronze/shop", "silver/shop/orders"))
    assert table_of(lake.bronze).fold(fold, up_to=back[lake.bronze]).topics == committed.topics
    assert table_of(lake.path("silver")).silver_folded(up_to=back[lake.path("silver")]) == before
    DeltaTable(lake.path("silver")).restore(back[lake.path("silver")])
    delta_log._KEPT.clear()
    found = delta_log.silver_committed(lake.path("silver"))
    assert found == before
    assert found is not None
    assert found.topics == then.topics


def committed_state(lake: Lake) -> Any:
    committed = delta_log.bronze_committed(lake.bronze)
    assert committed is not None
    return committed.topics["core.shop.public.orders"]


def _version(file: Path) -> int:
    return int(file.stem)
