"""The lake's side of a comparison: silver's state, how rows are written, and what is asked of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.errors import DatabaseError
from cdc_assets.quarantine.quarantined_records import quarantine_records
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.delta_log import SilverState, bronze_committed, silver_state
from cdc_assets.resources.plain_tables import plain_table
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.schema_ledger import ledger_of
from cdc_assets.tables.fold_specs import silver_spec
from cdc_assets.volumetry.log_position import LogPosition
from spark.delta.commits import Committed

if TYPE_CHECKING:
    from spark.reconcile.cut import AnyCut
    from spark.reconcile.job import Task
    from spark.reconcile.row_text import RowText, Slice

Read = tuple[SilverState | None, Committed | None]
"""Silver's state and what bronze has committed, read in this order: what silver has folded, bronze holds."""
_IGNORED = "schema_changes: {add: ignore} keeps it out of silver"


@dataclass(frozen=True)
class ComparedTable:
    """One table that is compared, and how its rows are written on both sides; `view`: the lake's are those of the view of now."""

    platform: Platform
    source: BaseSource
    table: Table
    text: RowText
    view: bool = False


def states(platform: Platform, source: BaseSource, table: Table) -> Read:
    """As both are now; None where there is none yet."""
    state = silver_state(names.silver_path(platform.lake, source, table))
    return state, bronze_committed(names.bronze_path(platform.lake, source))


def row_text(
    platform: Platform, source: BaseSource, table: Table, found: CatalogueTable, without: Mapping[str, str] | None = None
) -> RowText:
    """How the table's rows are written on both sides; `without` are columns that the source's side cannot write."""
    from spark.reconcile.row_text import RowText

    spec = silver_spec(platform.lake, source, table, found)
    ledger = ledger_of(spec.path) if spec.schema_changes["add"] == "ignore" else None
    left_out = {c.name: _IGNORED for c in spec.columns if ledger is not None and not ledger.holding(c.name)}
    return RowText(spec, {**left_out, **(without or {})})


def existing(source: BaseSource, table: Table, read: Read) -> tuple[SilverState, Committed]:
    """Both, or an error that says what to do."""
    state, committed = read
    if state is None or state.folded is None or committed is None:
        raise DatabaseError(f"{'/'.join(names.asset_key('silver', source, table))} does not exist yet; materialize it first")
    return state, committed


def task(compared: ComparedTable, read: Read, position: LogPosition, cut: AnyCut, part: Slice = (0, 1)) -> Task:
    """Silver as it was read before, and the events between that and the position, as the cut sees them."""
    from spark.reconcile.at_cut import Base
    from spark.reconcile.job import Task
    from spark.specs import TopicRange

    source, table, text = compared.source, compared.table, compared.text
    state, committed = existing(source, table, read)
    assert state.folded is not None
    topic = names.lake_topic(source, table)
    held = committed.topics.get(topic)
    if held is None:
        raise DatabaseError(f"{'/'.join(names.asset_key('bronze', source, table))} holds nothing yet; materialize it first")
    ends = position.offsets.get(topic, {})
    ranges = {p: (held.positions.get(p, 0), max(end, held.positions.get(p, 0))) for p, end in ends.items()}
    spec = text.spec
    lake = compared.platform.lake_kafka()
    of, form = lake.states([topic]).get(topic), (spec.envelope, spec.connector, spec.schema_registry)
    moved = of.moves_of(ranges) if of else {}
    tail = TopicRange(spec.table, topic, held.topic_id, held.epoch, ranges, *form, moved=moved)
    files = None if compared.view or not is_small(state) else plain_table(spec.path, state.version)
    base = Base(state.version, state.folded, committed, tail, lake.bootstrap, lake.login, compared.view, files)
    return Task(spec, base, cut, part, text.without)


def rows_in_doubt(compared: ComparedTable) -> int:
    """Open records in quarantine of which no later event says the row."""
    records = quarantine_records(compared.platform.lake, compared.source, compared.table)
    return sum(record.facts["superseded_by"] is None for record in records)


def is_small(state: SilverState) -> bool:
    """Whether looking at its rows costs Spark less than planning how to."""
    from spark.delta.plans import ROWS_UP_TO

    return state.rows <= ROWS_UP_TO
