"""Silver compared with a source that cannot tell one exact moment: suspects are read again until they are confirmed or
cleared.

Rows come page by page with the log marked between, or are those of the source's own topic where there is no database of
ours (Qlik Replicate and others).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cdc_assets.capture.log_position import LogPosition, carry_to_lake
from cdc_assets.capture.named_log_position import carry_named, offsets_text
from cdc_assets.capture.source_columns import catalogue_of, catalogue_table
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.databases.row_pages import PagedRows
from cdc_assets.clients.databases.source_cut import AnyRows
from cdc_assets.clients.kind_clients import open_reader
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.topic_messages import READERS
from cdc_assets.clients.topic_rows import TopicRows
from cdc_assets.proof import differing_rows
from cdc_assets.proof.compared_slices import WHOLE, Slices
from cdc_assets.proof.comparison_at_cut import WHOLE_TABLES, ComparisonScope
from cdc_assets.proof.comparison_result import (
    DIFFERENT,
    EQUAL,
    NOT_COMPARED,
    RowDifference,
    TableResult,
    Veil,
    not_compared,
    place_of_damage,
)
from cdc_assets.proof.differing_rows import MAX_ROWS
from cdc_assets.registry import names
from cdc_assets.registry.errors import ON_PURPOSE, CdcAssetsError, DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import kind_of
from cdc_assets.registry.source_declaration import BaseSource, TopicSource, UnaskedSource
from cdc_assets.registry.table_declaration import Table, TopicTable
from spark.errors import quantity
from spark.values.sql_dialects import BUCKETS

if TYPE_CHECKING:
    from spark.proof.bucket_sums import Suspect, Texts
    from spark.proof.row_text import RowText, Slice

Carry = Callable[[], LogPosition]
ROUNDS = 8
MAX_SUSPECTS = 5000
_PAUSE_SECONDS = 1.0


@dataclass
class Suspects:
    """The keys that are neither cleared nor confirmed yet, and what the last round found of them."""

    pending: set[str]
    last: dict[str, object] = field(default_factory=dict)
    confirmed: dict[str, tuple[Texts | None, Suspect]] = field(default_factory=dict)

    def judge(
        self,
        before: Mapping[str, Texts],
        lake: Mapping[str, Suspect],
        after: Mapping[str, Texts],
        unknown: Collection[str] = (),
    ) -> None:
        """One round: S1, L, S2. Of `unknown` keys the source's side cannot tell whether they have a row: they stay."""
        for key in sorted(self.pending - {*unknown}):
            first, suspect, second = before.get(key), lake[key], after.get(key)
            if suspect.copies <= 1 and suspect.silver in (first, second):
                self.pending.discard(key)
                continue
            same = (first, suspect.silver, suspect.copies) if first == second else None
            if same is not None and self.last.get(key) == same:
                self.pending.discard(key)
                self.confirmed[key] = (first, suspect)
            self.last[key] = same


@dataclass(frozen=True)
class TwoStepSource:
    """What is asked of the source: its rows as they are, its columns, and that all it has committed be carried into the lake."""

    now: AnyRows
    carry: Carry
    catalogue: Mapping[TableId, CatalogueTable]
    view: bool = False


def compare_in_two_steps(
    chain: Chain[BaseSource],
    tables: Sequence[Table],
    asked: TwoStepSource,
    *,
    slices: Slices | None = None,
    rounds: int = ROUNDS,
) -> dict[str, TableResult]:
    """By short table name; what stands in the way of comparing is a result as well.

    Step one: the source's rows as they are, and the lake with all that had been carried there by then, by buckets; keys of
    buckets that differ are suspects. Under load most of them have merely changed in between.

    Step two, round by round: the suspects' rows are read (S1), everything committed before that is carried into the lake, the
    lake's rows are read (L), and the source's again (S2).
        cleared      L is S1 or S2
        out of sync  S1 = S2, L is another row, and the next round finds the very same: what was committed before S1 is in L, so
                     a change on its way would have arrived
        in flight    everything else, until the rounds are over: neither equal nor different can be said

    Not as strong as a cut: no moment is named at which all rows were equal, and a row that changes to and fro between the
    reads, twice in the same way, would be taken for one that is out of sync.
    """
    results = {}
    for table in tables:
        try:
            if table.id not in asked.catalogue:
                raise DatabaseError(f"the source has no table {table.name}, or the role may not see it")
            table_slice = (slices or {}).get(names.table_name(table), WHOLE)
            one = _Table(
                chain.platform, chain.source, table, asked.now, asked.carry, asked.catalogue[table.id], table_slice, asked.view
            )
            results[names.table_name(table)] = one.compare(rounds)
        except ON_PURPOSE as error:
            results[names.table_name(table)] = not_compared(chain.source, table, str(error), method="two-step")
    return results


@dataclass(frozen=True)
class _Look:
    """What step one found; `left`: rows of silver that the source's side knows nothing of."""

    suspects: frozenset[str] = frozenset()
    source_rows: int = 0
    silver_rows: int = 0
    buckets: int = 0
    differing: int = 0
    left: int = 0

    @property
    def left_out(self) -> dict[str, str]:
        """How many rows were not compared, and why, in words."""
        return {quantity(self.left, "row"): "the source's side does not tell of them (any more)"} if self.left else {}


@dataclass(frozen=True)
class _Table:
    platform: Platform
    source: BaseSource
    table: Table
    now: AnyRows
    carry: Carry
    catalogue: CatalogueTable
    part: Slice
    view: bool = False
    places: list[str] = field(default_factory=list)
    """Up to where the lake was brought, newest last."""

    def compare(self, rounds: int) -> TableResult:
        from spark.proof.row_text import slice_text

        text = differing_rows.row_text(
            Chain(self.platform, self.source), self.table, self.catalogue, self.now.unwritten(self.catalogue)
        )
        if not text.keys:
            raise DatabaseError(f"{self.table.name} has no key that can be compared: the two-step method reads keys again")
        started = time.monotonic()
        look = self._first_look(text)
        suspects = Suspects(set(look.suspects))
        asked_first = len(suspects.pending)
        for _ in range(rounds):
            if not suspects.pending:
                break
            self._round(text, suspects)
        result = TableResult(
            table=f"{self.source.name}/{names.table_name(self.table)}",
            verdict=DIFFERENT if suspects.confirmed else NOT_COMPARED if suspects.pending else EQUAL,
            reason=f"{quantity(len(suspects.pending), 'key')} in flight in every round" if suspects.pending else "",
            lsn=self.places[-1],
            source_rows=look.source_rows,
            silver_rows=look.silver_rows,
            set_aside=differing_rows.rows_in_doubt(self._in_lake(text)),
            buckets=look.buckets,
            buckets_differing=look.differing,
            share=slice_text(self.part),
            not_compared={**text.not_compared, **look.left_out, **_unread_records(self.now.unread(self.table.id))},
            method="two-step",
            in_flight=len(suspects.pending),
            suspects=asked_first,
        )
        judged = [_difference(key, *texts) for key, texts in suspects.confirmed.items()]
        veil = Veil(self.table.sensitive)
        seconds = {"two-step": round(time.monotonic() - started, 3)}
        shown = tuple(veil.over(d, text.keys) for d in judged)
        return replace(result, differences=shown, keys_differing=len(shown), seconds=seconds)

    def _task(self, text: RowText) -> differing_rows.Task:
        """The lake with everything that had been committed in the source before."""
        from spark.proof.snapshot_cut import Everything

        read = differing_rows.states(Chain(self.platform, self.source), self.table)
        position = self.carry()
        self.places.append(position.lsn)
        return differing_rows.comparison_task(self._in_lake(text), read, position, Everything(), self.part)

    def _in_lake(self, text: RowText) -> differing_rows.ComparedTable:
        return differing_rows.ComparedTable(self.platform, self.source, self.table, text, self.view)

    def _first_look(self, text: RowText) -> _Look:
        """Step one: sums by bucket, and the keys of the buckets that differ."""
        from spark.proof import bucket_sums

        theirs = self.now.digest(self.table.id, text, self.part)
        key_filter = self.now.key_filter(self.table.id)
        task = self._task(text)
        if key_filter is not None:
            return self._look_at(text, task, range(BUCKETS), key_filter)
        ours = self.platform.spark().compare(bucket_sums.digest, task)
        differing = sorted(b for b in {*theirs, *ours} if theirs.get(b) != ours.get(b))
        look = self._look_at(text, task, differing) if differing else _Look()
        # Buckets that differ were read again: the rows are those that were compared.
        alike = sum(count for bucket, (count, _) in theirs.items() if bucket not in {*differing})
        rows, silver_rows = alike + look.source_rows, alike + look.silver_rows
        return _Look(look.suspects, rows, silver_rows, len({*theirs, *ours}), len(differing))

    def _look_at(
        self, text: RowText, task: differing_rows.Task, buckets: Sequence[int], key_filter: Callable[[str], bool] | None = None
    ) -> _Look:
        """The keys of some buckets that differ; with `key_filter`, of these keys only."""
        from spark.proof import bucket_sums

        if key_filter is not None:
            self._few_enough()
        theirs = self.now.key_hashes(self.table.id, text, buckets, self.part)
        ours = self.platform.spark().compare(lambda session, asked: bucket_sums.key_hashes(session, asked, buckets), task)
        silver = ours.total()
        if key_filter is not None:
            ours = type(ours)({(key, value): n for (key, value), n in ours.items() if key_filter(key)})
        keys = frozenset(key for key, _ in (*(theirs - ours), *(ours - theirs)))
        if len(keys) > MAX_SUSPECTS:
            raise DatabaseError(
                f"{quantity(len(keys), 'key')} differ at first sight, more than {MAX_SUSPECTS}: is silver far behind?"
            )
        return _Look(keys, theirs.total(), ours.total(), left=silver - ours.total())

    def _few_enough(self) -> None:
        state, _ = differing_rows.states(Chain(self.platform, self.source), self.table)
        parts = self.part[1] if isinstance(self.part, tuple) else 1
        if state is not None and state.rows // parts > MAX_ROWS:
            raise DatabaseError(
                f"silver has {quantity(state.rows, 'row', form=',')}, and the source's side tells not of all keys: more "
                f"than {MAX_ROWS:,} would be looked at one by one; compare a share at a time (--share 1/8)"
            )

    def _round(self, text: RowText, suspects: Suspects) -> None:
        from spark.proof import bucket_sums

        keys = sorted(suspects.pending)
        before = self.now.texts(self.table.id, text, keys)
        task = self._task(text)
        suspects_here = self.platform.spark().compare(lambda session, asked: bucket_sums.suspects(session, asked, keys), task)
        after = self.now.texts(self.table.id, text, keys)
        key_filter = self.now.key_filter(self.table.id)
        suspects.judge(before, suspects_here, after, [key for key in keys if key_filter is not None and not key_filter(key)])
        if suspects.pending:
            time.sleep(_PAUSE_SECONDS)


def _unread_records(records: int) -> dict[str, str]:
    return (
        {quantity(records, "record"): "could not be read, so nobody knows whose they are: cdc quarantine list"} if records else {}
    )


def _difference(key: str, row: Texts | None, suspect: Suspect) -> RowDifference:
    kind = "missing" if suspect.silver is None else "phantom" if row is None else "twice" if suspect.copies > 1 else "differs"
    where = place_of_damage(in_bronze=suspect.bronze == row, set_aside=suspect.set_aside)
    return RowDifference(key, kind, row, suspect.silver, where, max(1, suspect.copies))


def compare_paged(
    chain: Chain[UnaskedSource], tables: Sequence[Table], scope: ComparisonScope = WHOLE_TABLES
) -> dict[str, TableResult]:
    """By short table name; what stands in the way is a result as well.

    Everything that was committed before the mark lies before it in the log, and Debezium delivers in the order of commits: once
    the connector is behind it, the tables' topics hold all of that. MySQL tells its place itself; elsewhere the mark is a row
    of ours in a table that is captured like one of the source (`reconciliation: {marker: schema.table}`), see
    named_log_position. Nothing is locked.
    """
    try:
        reader = open_reader(chain.source.database)
        _refuse_without_marker(chain.source)

        def carry() -> LogPosition:
            return carry_named(chain, deadline=scope.timeout)

        catalogue = catalogue_of(chain, tables)
        paged = TwoStepSource(PagedRows(reader), carry, catalogue, scope.method.view)
        return compare_in_two_steps(chain, tables, paged, slices=scope.shares)
    except CdcAssetsError as error:
        return {names.table_name(table): not_compared(chain.source, table, str(error), method="two-step") for table in tables}


def _refuse_without_marker(source: UnaskedSource) -> None:
    if not kind_of(source).tells_log and source.reconciliation.marker is None:
        raise DatabaseError(
            f"source {source.name} declares no marker table, so nobody knows when the lake has what its rows show: make one with "
            "a column id varchar(100) primary key, declare it (reconciliation: {marker: schema.table}), and cdc apply"
        )


def compare_with_topic(
    chain: Chain[TopicSource], tables: Sequence[Table], scope: ComparisonScope = WHOLE_TABLES
) -> dict[str, TableResult]:
    """By short table name; what stands in the way is a result as well.

    The source's side is the topic, read again from its own records and folded in plain Python by another rule than silver's
    (clients.topic_rows); the lake's side is silver, brought to what the topic held before. So what is shown is that mirror,
    bronze, fold and merge have lost and changed nothing of the topic; what the topic's writer left out nobody can tell from
    here.
    """
    topic_tables = [t for t in tables if isinstance(t, TopicTable)]
    refused = {names.table_name(t): why for t in topic_tables if (why := _why_unread(t))}
    kept = [t for t in topic_tables if names.table_name(t) not in refused]
    results: dict[str, TableResult] = {}
    try:
        results = _compare(chain, kept, scope) if kept else {}
    except CdcAssetsError as error:
        refused |= {names.table_name(t): str(error) for t in kept}
    unread = {
        n: not_compared(chain.source, t, refused[n], method="two-step")
        for t in topic_tables
        if (n := names.table_name(t)) in refused
    }
    return results | unread


def _compare(chain: Chain[TopicSource], kept: Sequence[TopicTable], scope: ComparisonScope) -> dict[str, TableResult]:
    cluster = chain.platform.core_kafka(chain.source.cluster) if names.is_mirrored(chain.source) else chain.platform.lake_kafka()
    registry = chain.source.schema_registry
    rows = TopicRows(cluster, {t.id: (names.topic(chain.source, t), t) for t in kept}, registry.address if registry else None)

    def carry() -> LogPosition:
        position = carry_to_lake(chain, deadline=scope.timeout)
        return replace(position, lsn=offsets_text(position.offsets))

    catalogue = {t.id: catalogue_table(t) for t in kept}
    source_twice = TwoStepSource(rows, carry, catalogue, scope.method.view)
    return compare_in_two_steps(chain, kept, source_twice, slices=scope.shares)


def _why_unread(table: TopicTable) -> str:
    if table.envelope not in READERS:
        return f"records in {table.envelope} are not read a second time; those that are: {', '.join(READERS)}"
    if table.partial:
        return f"{', '.join(table.partial)}: parts of rows are not put together a second time"
    if not table.keys:
        return f"{table.name} has no key: the two-step method reads keys again"
    return ""
