"""A lake of one live source with all that is in one, and how it grows old at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer
from deltalake import DeltaTable

from cdc_assets import names
from cdc_assets.backup import backup_position
from cdc_assets.backup.copy import backup_table
from cdc_assets.backup.verify import verify_backup
from cdc_assets.continuous.lag import lags
from cdc_assets.cuts.cut_manifest import CutEntry, CutManifest, name_of_cut, read_cuts
from cdc_assets.cuts.keep_cut import keep_cut
from cdc_assets.ledger.count import count_events
from cdc_assets.ledger.read import read_windows
from cdc_assets.quarantine.quarantined_records import quarantine_records
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets.registry.models import Source
from cdc_assets.replay.replay_table import ReplayWish, replay_table, undo_replay
from cdc_assets.resources import read_logs
from cdc_assets.resources.delta_log import (
    bronze_committed,
    ledger_counted,
    rows_at,
    silver_committed,
    silver_state,
    version_that_folded,
)
from cdc_assets.resources.object_store import ObjectStore, open_store
from cdc_assets.silver.fold_tables import fold_table
from cdc_assets.silver_now import now
from cdc_assets.tables.source_catalogue import catalogue_of
from cdc_assets.windowed.refine_windows import compare_with_batch, is_behind, refine, windows_of
from cdc_assets_tests.support.lake.lake import rows, values
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain
from spark.delta.log import history_by_spark
from spark.replay.marks import newest_mark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdc_assets_tests.support.live.live_source import LiveSource

NAME = "grownold"
KEYLESS = f"{NAME}_log"
WINDOWS: dict[str, Any] = {"name": "daily", "event_time": "at", "size": "1d", "measures": {"n": "count", "total": "sum amount"}}
TABLES: list[Any] = [{"name": f"public.{NAME}", "history": "scd2", "windows": [WINDOWS]}, {"name": f"public.{KEYLESS}"}]
DDL = (
    f"CREATE TABLE {NAME} (id int PRIMARY KEY, at timestamptz NOT NULL, amount bigint)",
    f"CREATE TABLE {KEYLESS} (what text, amount bigint)",
    f"ALTER TABLE {KEYLESS} REPLICA IDENTITY FULL",
    f"INSERT INTO {NAME} SELECT i, '2026-01-01'::timestamptz + i * interval '1 hour', i FROM generate_series(1, 40) i",
    f"INSERT INTO {KEYLESS} VALUES ('first', 1), ('first', 1), ('other', 2)",
)
TEN_DAYS = 10 * 86_400.0


@dataclass
class OldLake:
    chain: SmallChain
    store: ObjectStore

    @property
    def root(self) -> str:
        return str(self.chain.root)

    @property
    def source(self) -> Source:
        return self.chain.source

    @property
    def paths(self) -> dict[str, str]:
        """Every Delta table of the source, by its place."""
        logs = sorted(Path(self.root).rglob("_delta_log"))
        return {str(log.parent.relative_to(self.root)): str(log.parent) for log in logs}

    def run(self, *statements: str) -> None:
        with self.chain.live.connection() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def carry(self) -> None:
        """Into bronze, silver, the history and the backup."""
        self.chain.advance(fold=False)
        committed = bronze_committed(names.bronze_path(self.root, self.source))
        assert committed is not None
        found = catalogue_of(self.chain.platform, self.source, self.source.tables)
        for table in self.source.tables:
            fold_table(self.chain.platform, self.source, table, found[table.id], committed.version, None)
            self.back_up(names.table_name(table))

    def back_up(self, table: str) -> None:
        backup_table(self.store, source=NAME, table=table, bronze_path=names.bronze_path(self.root, self.source))

    def refine(self) -> None:
        for windows in windows_of(self.source):
            refine(self.chain.platform, windows)

    def count(self) -> None:
        count_events(self.chain.platform, self.source, self.source.tables)

    def grow(self, cycles: int) -> None:
        """Changes of many cycles, all kinds of them, with a record that cannot be folded."""
        for number in range(cycles):
            self.run(
                f"UPDATE {NAME} SET amount = amount + 1 WHERE id % {2 + number % 3} = 0",
                f"DELETE FROM {NAME} WHERE id = {10 + number}",
                f"INSERT INTO {NAME} VALUES ({100 + number}, '2026-02-01', {number})",
                f"INSERT INTO {KEYLESS} VALUES ('first', {number})",
                f"DELETE FROM {KEYLESS} WHERE what = 'other'",
            )
            if number == 1:
                self.send_garbage()
            self.carry()
        self.refine()
        self.count()

    def send_garbage(self) -> None:
        producer = Producer({"bootstrap.servers": self.chain.live.bootstrap})
        for topic in self.chain.topics:
            producer.produce(topic, b"no JSON", b"no JSON either")
        assert producer.flush(60) == 0

    def replay(self) -> list[str]:
        """The table is broken by hand, and made again; the rows that it had when it was broken."""
        path = self.chain.silver(NAME)
        DeltaTable(path).delete("id % 4 = 0")
        broken = sorted(map(repr, rows(path)))
        done = replay_table(self.chain.platform, self.source, self.source.tables[0], ReplayWish(), lambda _: None)
        assert done.swapped is not None
        return broken

    def undo(self) -> dict[str, int]:
        return undo_replay(self.chain.platform, self.source, self.source.tables[0], lambda _: None, dry_run=False)

    def cut(self) -> CutManifest:
        """Of the newest version of each table."""
        made_at, entries = datetime.now(timezone.utc), list[CutEntry]()
        for table in self.source.tables:
            name, path = names.table_name(table), names.silver_path(self.root, self.source, table)
            opened = DeltaTable(path)
            at = (opened.version(), str(opened.metadata().id), rows_at(path, opened.version()))
            entries.append(CutEntry("silver", name, f"silver/{NAME}/{name}", *at, quarantined=0, topics={}))
        cut = CutManifest(name_of_cut(NAME, made_at), NAME, made_at, "0", tuple(entries))
        keep_cut(self.root, self.source, cut, timedelta(days=30))
        return cut

    def grow_old(self) -> None:
        """All of it was written ten days ago."""
        for file in Path(self.root).rglob("*"):
            at = file.stat().st_mtime - TEN_DAYS
            os.utime(file, (at, at))
        read_logs._KEPT.clear()

    def answers(self) -> dict[str, Any]:
        """What every reader of our own metadata says."""
        read_logs._KEPT.clear()
        bronze = bronze_committed(names.bronze_path(self.root, self.source))
        assert bronze is not None
        told: dict[str, Any] = {
            "bronze": (bronze.topics, bronze.overlaps),
            "ledger": ledger_counted(names.ledger_path(self.root, self.source)),
            "lags": {table: lag.records for table, lag in lags(self.chain.platform, self.source).items()},
            "cuts": read_cuts(self.root, self.source),
        }
        for table in self.source.tables:
            told |= {f"{name} {table.name}": answer for name, answer in self._of_table(table).items()}
        for windows in windows_of(self.source):
            batch = compare_with_batch(self.chain.platform, windows)
            told["windows"] = (batch.results, batch.differing)
        return told

    def _of_table(self, table: Any) -> dict[str, Any]:
        name, silver = names.table_name(table), names.silver_path(self.root, self.source, table)
        past, bronze = names.history_path(self.root, self.source, table), names.bronze_path(self.root, self.source)
        state, position = silver_state(silver), backup_position(self.store, source=NAME, table=name)
        report = verify_backup(self.store, source=NAME, table=name, bronze_path=bronze, deep=True)
        assert state is not None
        assert state.folded is not None
        set_aside = quarantine_records(self.root, self.source, table, raw=True)
        commits = history_by_spark(self.chain.session, silver, None)
        return {
            "silver": (silver_committed(silver), state.rows, state.folded),
            "history": silver_committed(past) if table.history == "scd2" else None,
            "mark": newest_mark(silver),
            "mark of the history": newest_mark(past) if table.history == "scd2" else None,
            "windows of the ledger": read_windows(self.root, self.source, table),
            "quarantine": [record.to_json(raw=True) for record in set_aside],
            "backup": (position.positions, position.records, report.differences, report.behind),
            "version that folded": version_that_folded(silver, state.folded) == state.version,
            "told by Spark": next(c.user_metadata for c in commits if '"kind":"silver"' in (c.user_metadata or "")),
            "now": sorted(map(repr, now(self.source, name, platform=self.chain.platform).to_arrow().to_pylist())),
        }

    def rows(self) -> dict[str, list[str]]:
        """All rows of every table, by delta-rs."""
        return {place: sorted(map(repr, rows(path))) for place, path in self.paths.items()}

    def rows_by_spark(self) -> dict[str, int]:
        """A digest of every table's rows, by Spark."""
        from pyspark.sql import functions as sf

        def digest(path: str) -> Any:
            found = self.chain.session.read.format("delta").load(path)
            text = sf.to_json(sf.struct("*")) if found.columns else sf.lit("")
            return found.agg(sf.count("*"), sf.sum(sf.xxhash64(text).cast("decimal(38,0)"))).collect()[0][:]

        return {place: digest(path) for place, path in self.paths.items()}

    def is_the_source(self) -> None:
        """Silver has the source's rows."""
        with self.chain.live.connection() as connection:
            for table in (NAME, KEYLESS):
                found = connection.execute(f"TABLE {table}".encode()).fetchall()
                columns = ("id", "at", "amount") if table == NAME else ("what", "amount")
                held = [tuple(row[name] for name in columns) for row in values(self.chain.silver(table))]
                assert sorted(map(repr, held)) == sorted(map(repr, found))

    def windows_are_behind(self) -> bool:
        return any(is_behind(self.root, windows) for windows in windows_of(self.source))


@contextmanager
def old_lake(live: LiveSource, remote: str, session: SparkSession, folder: Path) -> Iterator[OldLake]:
    """`live` has a connector of its own."""
    with live.connection() as connection:
        for statement in DDL:
            connection.execute(statement.encode())
    with small_chain(live, remote, session, folder / "lake", TABLES) as chain:
        store = open_store(BackupStore(kind="local", bucket=str(folder / "bucket")))
        store.create_bucket()
        yield OldLake(chain, store)
