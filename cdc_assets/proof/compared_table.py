"""What is asked of a comparison, where a source's rows stand, and one table on both sides.

A comparison is one method for all kinds (cdc_assets.proof.comparison). A kind gives only who reads its rows, and how all that
they show is carried into the lake (`SourceSide`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cdc_assets.capture.log_position import LogPosition
from cdc_assets.chain.fold_specs import silver_spec
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.databases.source_cut import SourceCut, SourceRows
from cdc_assets.clients.delta_log import SilverState, bronze_committed, silver_state
from cdc_assets.clients.delta_rows import plain_table
from cdc_assets.clients.schema_ledger import ledger_of
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.table.commit_metadata import Committed

if TYPE_CHECKING:
    from spark.proof.bucket_sums import Task
    from spark.proof.key_order import TwoRanges
    from spark.proof.row_text import RowText, Slice
    from spark.proof.snapshot_cut import AnyCut

Share = tuple[int, int]
WHOLE: Share = (0, 1)
LakeRead = tuple[SilverState | None, Committed | None]
"""Silver's state and what bronze has committed, read in this order: what silver has folded, bronze holds."""
_IGNORED = "schema_changes: {add: ignore} keeps it out of silver"


@dataclass(frozen=True)
class ComparisonRequest:
    """What one comparison of a source's tables looks at.

    `slices` by short table name, other tables whole; `timeout` in seconds, which the chain may take to carry the position into
    the lake. `two_step`: rows are read again although the source has an exact cut; so are those of a `standby` (`host:port`).
    `view`: the lake's rows are those of the view of now, which needs bronze alone to have come so far.
    """

    slices: Mapping[str, Slice | TwoRanges] = field(default_factory=dict)
    timeout: float = 300.0
    two_step: bool = False
    standby: str | None = None
    view: bool = False


WHOLE_TABLES = ComparisonRequest()


@dataclass(frozen=True)
class SourceSide:
    """Who reads a source's rows, its columns, and how everything committed before the call is carried into the lake.

    `cut`: the rows are of this one moment, so what is found is judged once; None: they are read again until it is stable.
    `unwritten` are a table's columns that the reader cannot write as the lake does. After a digest `key_filter` tells of which
    keys (texts) it can say whether they have a row (None: of all), and `unread` how many records nobody knows the key of.
    """

    rows: SourceRows
    carry: Callable[[], LogPosition]
    catalogue: Mapping[TableId, CatalogueTable]
    cut: SourceCut | None = None
    unwritten: Callable[[CatalogueTable], Mapping[str, str]] = lambda _: {}
    key_filter: Callable[[TableId], Callable[[str], bool] | None] = lambda _: None
    unread: Callable[[TableId], int] = lambda _: 0

    @property
    def sees(self) -> AnyCut:
        """How Spark tells which events the rows show."""
        from spark.proof.snapshot_cut import Everything

        return Everything() if self.cut is None else self.cut.in_lake


CUT, TWO_STEP = "cut", "two-step"


@dataclass(frozen=True)
class Way:
    """Tables of a source that are compared by one side; `open` gives it, or says why there is none (CdcAssetsError)."""

    tables: Sequence[Table]
    method: str
    open: Callable[[], AbstractContextManager[SourceSide]]


@dataclass(frozen=True)
class ComparedTable:
    """One table that is compared, and how its rows are written on both sides; `view`: the lake's are those of the view of now."""

    chain: Chain[Any]
    table: Table
    text: RowText
    view: bool = False

    @property
    def name(self) -> str:
        """Source and table, as results name it."""
        return f"{self.chain.source.name}/{names.table_name(self.table)}"


def lake_read(chain: Chain[Any], table: Table) -> LakeRead:
    """As both are now; None where there is none yet."""
    state = silver_state(chain.silver_path(table))
    return state, bronze_committed(chain.bronze_path)


def row_text(chain: Chain[Any], table: Table, found: CatalogueTable, without: Mapping[str, str] | None = None) -> RowText:
    """How the table's rows are written on both sides; `without` are columns that the source's side cannot write."""
    from spark.proof.row_text import RowText

    spec = silver_spec(chain.platform.lake, chain.source, table, found)
    ledger = ledger_of(spec.path) if spec.schema_changes["add"] == "ignore" else None
    left_out = {c.name: _IGNORED for c in spec.columns if ledger is not None and not ledger.holding(c.name)}
    return RowText(spec, {**left_out, **(without or {})})


def existing(source: BaseSource, table: Table, read: LakeRead) -> tuple[SilverState, Committed]:
    """Both, or an error that says what to do."""
    state, committed = read
    if state is None or state.folded is None or committed is None:
        raise DatabaseError(f"{'/'.join(names.asset_key('silver', source, table))} does not exist yet; materialize it first")
    return state, committed


def is_small(state: SilverState) -> bool:
    """Whether looking at its rows costs Spark less than planning how to."""
    from spark.table.spark_plans import ROWS_UP_TO

    return state.rows <= ROWS_UP_TO


def comparison_task(compared: ComparedTable, read: LakeRead, position: LogPosition, sees: AnyCut, part: Slice = WHOLE) -> Task:
    """Silver as it was read before, and the events between that and the position, as the rows show them."""
    from spark.proof.bucket_sums import Task
    from spark.proof.table_at_cut import Base
    from spark.specs import TopicRange

    source, table, spec = compared.chain.source, compared.table, compared.text.spec
    state, committed = existing(source, table, read)
    assert state.folded is not None
    topic = names.lake_topic(source, table)
    committed_topic = committed.topics.get(topic)
    if committed_topic is None:
        raise DatabaseError(f"{'/'.join(names.asset_key('bronze', source, table))} holds nothing yet; materialize it first")
    ends = position.offsets.get(topic, {})
    ranges = {p: (committed_topic.positions.get(p, 0), max(end, committed_topic.positions.get(p, 0))) for p, end in ends.items()}
    lake = compared.chain.platform.lake_kafka()
    of, form = lake.states([topic]).get(topic), (spec.envelope, spec.connector, spec.schema_registry)
    moved = of.moves_of(ranges) if of else {}
    tail = TopicRange(spec.table, topic, committed_topic.topic_id, committed_topic.epoch, ranges, *form, moved=moved)
    files = None if compared.view or not is_small(state) else plain_table(spec.path, state.version)
    base = Base(state.version, state.folded, committed, tail, lake.bootstrap, lake.login, compared.view, files)
    return Task(spec, base, sees, part, compared.text.without)
