"""The table of checks: a row each, with its asset, its question, the sources that have it, and whether it stops what is behind.

A row is what Dagster is told of a check before it has run. How it is answered stands in a step (`asset_steps.CheckStep`), which
may answer several checks by one look. Steps are listed in `source_chain.CHECKS`; docs/how-to/add-a-check.md adds one.

A source of topics has no connector to check, and like one whose database is not asked no rows to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import dagster as dg

from cdc_assets.capture.preflight.table_models import CHECK as TABLE_MODEL_NAME
from cdc_assets.capture.preflight.table_models import reads_statements
from cdc_assets.chain.windowed_results import TableWindows, can_ask, windows_of
from cdc_assets.defs.asset_specs import asset_key
from cdc_assets.proof.history_proof import has_history
from cdc_assets.proof.kind_proof import proof_of
from cdc_assets.registry import names
from cdc_assets.registry.field_types import format_duration
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table

Subject = TypeVar("Subject")
"""What a check is about: a table, the windowed results of one, or None: the source as a whole."""


@dataclass(frozen=True)
class CheckSpec(Generic[Subject]):
    """A check as Dagster lists it.

    `layer` is the first part of its asset's key. `question` says what holds when it passes. `subjects` are what it is about in a
    source, none where the check makes no sense. A blocking check that fails stops what is behind its asset in the same run, and
    makes `dagster asset materialize` end non-zero.
    """

    name: str
    layer: str
    question: str | Callable[[BaseSource], str]
    subjects: Callable[[BaseSource], Iterable[Subject]]
    blocks: Callable[[BaseSource, Subject], bool] = lambda source, subject: True

    def key(self, source: BaseSource, subject: Subject | None = None) -> dg.AssetCheckKey:
        """The check of one table, or of the source as a whole."""
        if isinstance(subject, TableWindows):
            return dg.AssetCheckKey(dg.AssetKey(subject.key), self.name)
        table: Any = subject
        return dg.AssetCheckKey(asset_key(self.layer, source, table), self.name)

    def keys(self, source: BaseSource) -> dict[dg.AssetCheckKey, Subject]:
        """All checks of the row that the source has, with what each is about."""
        return {self.key(source, subject): subject for subject in self.subjects(source)}

    def definitions(self, source: BaseSource) -> list[dg.AssetCheckSpec]:
        """The same, as Dagster takes them."""
        text = self.question
        return [
            dg.AssetCheckSpec(
                self.name,
                asset=key.asset_key,
                description=text if isinstance(text, str) else text(source),
                blocking=self.blocks(source, subject),
            )
            for key, subject in self.keys(source).items()
        ]


def _tables(source: BaseSource) -> Iterable[Table]:
    return source.tables


def _tables_with_mirror(source: BaseSource) -> Iterable[Table]:
    return source.tables if names.is_mirrored(source) else ()


def _whole_source_if(is_declared: Callable[[BaseSource], object]) -> Callable[[BaseSource], Iterable[None]]:
    return lambda source: (None,) if is_declared(source) else ()


def _blocks_by_difference(source: BaseSource, table: Table) -> bool:
    return source.reconciliation_of(table).on_difference == "fail"


CONNECTOR_RUNNING = CheckSpec[None](
    "connector_running",
    "connector",
    "The connector and every one of its tasks run.",
    _whole_source_if(lambda source: source.captured),
)
PREFLIGHT = CheckSpec[None](
    "preflight",
    "connector",
    "The source allows capture, and keeps the log for it.",
    _whole_source_if(lambda source: source.captured),
)
EVENTS_FLOW = CheckSpec[None](
    "events_flow",
    "connector",
    "Every table that changes at the source is captured and has events, and no change of rows is in the log without one. "
    "The source says itself what changes.",
    # PostgreSQL says it by its counters, MariaDB and MySQL by their binlog.
    _whole_source_if(lambda source: proof_of(source).witness),
)
NOTHING_LOST = CheckSpec[Table](
    "nothing_lost", "mirror", "No record, and no whole topic, was removed before MirrorMaker had copied it.", _tables_with_mirror
)
RECORD_PARITY = CheckSpec[Table](
    "record_parity",
    "bronze",
    "Committed records in topic = in mirror = in bronze, counted, with a digest of their order and bytes.",
    _tables,
)
RECONCILED = CheckSpec[Table](
    "reconciled",
    "silver",
    "Every row of silver = the source's row, at one position of the source's log, under live writes.",
    lambda source: source.tables if source.asked else (),
    _blocks_by_difference,
)
# The same question of sources without an exact moment: their rows travel each time, so they are compared on a rhythm of its own.
RECONCILED_IN_STEPS = CheckSpec[Table](
    "reconciled",
    "silver",
    "Every row of silver = the source's row, in two steps. Suspects are read again until confirmed or cleared.",
    lambda source: source.rows_tables,
    _blocks_by_difference,
)
SCHEMA = CheckSpec[Table](
    "schema",
    "silver",
    "The table's schema and when it changed; red when a change keeps the table from being folded. Warns while older rows lack a "
    "value that the source may have, when rows were folded by other rules than the registry has now, and when a table that is "
    "declared portable has features that some readers lack.",
    _tables,
)
FRESH = CheckSpec[Table](
    "fresh", "silver", "Silver held all there was within `freshness`: by a fold, or because nothing was new.", _tables
)
QUARANTINE_EMPTY = CheckSpec[Table]("quarantine_empty", "silver", "No record of the table is in quarantine.", _tables)
TABLE_MODEL = CheckSpec[Table](
    TABLE_MODEL_NAME,
    "silver",
    "Debezium reads the table's rows by the columns that the server has.",
    lambda source: source.tables if reads_statements(source) else (),
)
HISTORY_RECONCILED = CheckSpec[Table](
    "history_reconciled",
    "silver",
    "All versions of every row are those that bronze makes. The current versions are silver's rows.",
    lambda source: filter(has_history, source.tables),
    # A wrong history must not hold up what reads silver.
    lambda source, table: False,
)
MANIFEST_PARITY = CheckSpec[Table](
    "manifest_parity",
    "backup",
    "Every manifest's objects are there with size and sha256, without gap, overlap or stray object.",
    lambda source: source.tables if source.backup else (),
)
TOPIC_MIRROR = CheckSpec[Table](
    "topic_mirror",
    "ledger",
    "In every event-time window, by op: committed records in the topic = in the mirror.",
    _tables_with_mirror,
)
MIRROR_BRONZE = CheckSpec[Table](
    "mirror_bronze", "ledger", "In every event-time window, by op: records in the mirror = in bronze.", _tables
)
BRONZE_FATES = CheckSpec[Table](
    "bronze_fates",
    "ledger",
    "In every event-time window, by op: records in bronze = the sum of their fates in silver.",
    _tables,
)
LATE_EVENTS = CheckSpec[Table](
    "late_events", "ledger", "How many events came after their window was closed, and how late.", _tables
)
MAINTAINED = CheckSpec[None](
    "maintained",
    names.MAINTENANCE,
    "Files, gone rows and logs of the tables stay small.",
    _whole_source_if(lambda source: True),
)
CUTS_KEPT = CheckSpec[None](
    "cuts_kept",
    names.CUT,
    "The newest cut is as young as declared, and the kept ones can be read.",
    _whole_source_if(lambda source: source.cuts),
)
DRILLED = CheckSpec[None](
    "drilled",
    names.DRILL,
    lambda source: (
        f"The backup was restored within {format_duration(source.drill.oldest) if source.drill else ''}, "
        "and is what silver holds."
    ),
    _whole_source_if(lambda source: source.drill),
)
WINDOWS_EQUAL_BATCH = CheckSpec[TableWindows](
    "windows_equal_batch",
    "windows",
    "Every result, and whether it is final, is what one batch over the same rows of silver computes.",
    windows_of,
)
WINDOWS_EQUAL_SOURCE = CheckSpec[TableWindows](
    "windows_equal_source",
    "windows",
    "Results are what SQL computes over the source's rows. A difference is one that was seen at two looks.",
    lambda source: filter(can_ask, windows_of(source)),
)
