"""A row with a long value on its whole way: into bronze, into silver by both writers, compared, counted, backed up, restored."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_assets.backup.backup_copy import backup_table
from cdc_assets.clients.opened_store import open_store
from cdc_assets.recovery.restore_point import RESTORED, RestoreRequest
from cdc_assets.recovery.restored_bronze import restore_bronze
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.lake.compared import task_of
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake
from cdc_assets_tests.support.lake.ledger_records import ledger_spec
from cdc_assets_tests.support.values.long_values import LONG, long_column
from spark.proof import ledger_job as ledger
from spark.proof.bucket_sums import Digest, digest
from spark.proof.snapshot_cut import Cut
from spark.silver import fold_job as silver
from spark.specs import Column, SilverSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "long"
STEPS = ("append", "fold", "fold by Spark", "digest", "ledger", "backup", "restore")


@dataclass
class LongRow:
    """Of a type, about so many bytes; `seconds` by step."""

    session: SparkSession
    root: Path
    type_: str
    size: int
    source: Source
    seconds: dict[str, float] = field(default_factory=dict)

    def play(self) -> Digest:
        """All steps; what the comparison says of the row."""
        lake, value = Lake(self.session, self.root, not_compared="one row by each writer"), LONG[self.type_](self.size)
        spec = lake.spec(TABLE, (Column("id", "integer", False), long_column(self.type_, self.size)))
        lake.put(TABLE, event(0, {"id": 1, "v": value.sent}))
        self._take("append", lambda: lake.append(lake.all_of(TABLE)))
        self._take("fold", lambda: lake.fold(spec))
        by_spark = replace(spec, path=self.path_by_spark)
        self._take("fold by Spark", lambda: silver.run(self.session, by_spark))
        found = self._take("digest", lambda: digest(self.session, task_of(lake, spec, Cut(1000, frozenset(), 1 << 40))))
        self._take("ledger", lambda: ledger.run(self.session, ledger_spec(lake, spec)))
        self._back_up_and_restore(lake, spec)
        return found

    @property
    def path_by_spark(self) -> str:
        """Silver, as a job of its own makes it."""
        return str(self.root / "by_spark")

    @property
    def restored(self) -> str:
        """The lake that was made from the backup."""
        return str(self.root / "restored")

    def _back_up_and_restore(self, lake: Lake, spec: SilverSpec) -> None:
        assert self.source.backup is not None
        store = open_store(self.source.backup.store)
        store.create_bucket()
        self._take("backup", lambda: backup_table(store, source="source", table=TABLE, bronze_path=lake.bronze_path))
        request = RestoreRequest(self.source, self.source.tables, store, self.restored)
        found = self._take("restore", lambda: restore_bronze(request, lambda _: None))
        assert [each.outcome for each in found] == [RESTORED], found

    def _take(self, step: str, work: Callable[[], Any]) -> Any:
        began = time.monotonic()
        done = work()
        self.seconds[step] = time.monotonic() - began
        return done
