"""Silver compared with a source that cannot tell one exact moment: suspects are read again until confirmed or cleared.

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

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.errors import ON_PURPOSE, DatabaseError
from cdc_assets.quantity import quantity
from cdc_assets.reconcile import lake
from cdc_assets.reconcile.drill_down import MAX_ROWS
from cdc_assets.reconcile.result import RowDifference, TableResult, Veil, not_compared, place_of_damage
from cdc_assets.reconcile.slices import WHOLE, Slices
from cdc_assets.reconcile.verdict import DIFFERENT, EQUAL, NOT_COMPARED
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.databases.cuts import AnyRows
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry.log_position import LogPosition
from spark.dialects.hashing import BUCKETS

if TYPE_CHECKING:
    from spark.reconcile.job import Suspect, Texts
    from spark.reconcile.row_text import RowText, Slice

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
            first, held, second = before.get(key), lake[key], after.get(key)
            if held.copies <= 1 and held.silver in (first, second):
                self.pending.discard(key)
                continue
            same = (first, held.silver, held.copies) if first == second else None
            if same is not None and self.last.get(key) == same:
                self.pending.discard(key)
                self.confirmed[key] = (first, held)
            self.last[key] = same


@dataclass(frozen=True)
class TwoStepSource:
    """What is asked of the source: its rows as they are, its columns, and that all it has committed be carried into the lake."""

    now: AnyRows
    carry: Carry
    catalogue: Mapping[TableId, CatalogueTable]
    view: bool = False


def compare(
    platform: Platform,
    source: BaseSource,
    tables: Sequence[Table],
    asked: TwoStepSource,
    *,
    slices: Slices | None = None,
    rounds: int = ROUNDS,
) -> dict[str, TableResult]:
    """By short table name; what stands in the way of comparing is a result as well."""
    found = {}
    for table in tables:
        try:
            if table.id not in asked.catalogue:
                raise DatabaseError(f"the source has no table {table.name}, or the role may not see it")
            part = (slices or {}).get(names.table_name(table), WHOLE)
            one = _Table(platform, source, table, asked.now, asked.carry, asked.catalogue[table.id], part, asked.view)
            found[names.table_name(table)] = one.compare(rounds)
        except ON_PURPOSE as error:
            found[names.table_name(table)] = not_compared(source, table, str(error), method="two-step")
    return found


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
        from spark.reconcile.row_text import slice_text

        text = lake.row_text(self.platform, self.source, self.table, self.catalogue, self.now.unwritten(self.catalogue))
        if not text.keys:
            raise DatabaseError(f"{self.table.name} has no key that can be compared: the two-step method reads keys again")
        started = time.monotonic()
        look = self._first_look(text)
        suspects = Suspects(set(look.suspects))
        asked = len(suspects.pending)
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
            set_aside=lake.rows_in_doubt(self._in_lake(text)),
            buckets=look.buckets,
            buckets_differing=look.differing,
            share=slice_text(self.part),
            not_compared={**text.not_compared, **look.left_out, **_unread(self.now.unread(self.table.id))},
            method="two-step",
            in_flight=len(suspects.pending),
            suspects=asked,
        )
        told = [_difference(key, *found) for key, found in suspects.confirmed.items()]
        veil = Veil(self.table.sensitive)
        seconds = {"two-step": round(time.monotonic() - started, 3)}
        shown = tuple(veil.over(d, text.keys) for d in told)
        return replace(result, differences=shown, keys_differing=len(shown), seconds=seconds)

    def _task(self, text: RowText) -> lake.Task:
        """The lake with everything that had been committed in the source before."""
        from spark.reconcile.cut import Everything

        read = lake.states(self.platform, self.source, self.table)
        position = self.carry()
        self.places.append(position.lsn)
        return lake.task(self._in_lake(text), read, position, Everything(), self.part)

    def _in_lake(self, text: RowText) -> lake.ComparedTable:
        return lake.ComparedTable(self.platform, self.source, self.table, text, self.view)

    def _first_look(self, text: RowText) -> _Look:
        """Step one: sums by bucket, and the keys of the buckets that differ."""
        from spark.reconcile import job

        theirs = self.now.digest(self.table.id, text, self.part)
        known = self.now.key_filter(self.table.id)
        task = self._task(text)
        if known is not None:
            return self._look_at(text, task, range(BUCKETS), known)
        ours = self.platform.spark().compare(job.digest, task)
        differing = sorted(b for b in {*theirs, *ours} if theirs.get(b) != ours.get(b))
        look = self._look_at(text, task, differing) if differing else _Look()
        # Buckets that differ were read again: the rows are those that were compared.
        alike = sum(count for bucket, (count, _) in theirs.items() if bucket not in {*differing})
        rows, held = alike + look.source_rows, alike + look.silver_rows
        return _Look(look.suspects, rows, held, len({*theirs, *ours}), len(differing))

    def _look_at(
        self, text: RowText, task: lake.Task, buckets: Sequence[int], known: Callable[[str], bool] | None = None
    ) -> _Look:
        """The keys of some buckets that differ; with `known`, of these keys only."""
        from spark.reconcile import job

        if known is not None:
            self._few_enough()
        theirs = self.now.key_hashes(self.table.id, text, buckets, self.part)
        ours = self.platform.spark().compare(lambda session, asked: job.key_hashes(session, asked, buckets), task)
        silver = ours.total()
        if known is not None:
            ours = type(ours)({(key, value): n for (key, value), n in ours.items() if known(key)})
        keys = frozenset(key for key, _ in (*(theirs - ours), *(ours - theirs)))
        if len(keys) > MAX_SUSPECTS:
            raise DatabaseError(
                f"{quantity(len(keys), 'key')} differ at first sight, more than {MAX_SUSPECTS}: is silver far behind?"
            )
        return _Look(keys, theirs.total(), ours.total(), left=silver - ours.total())

    def _few_enough(self) -> None:
        state, _ = lake.states(self.platform, self.source, self.table)
        parts = self.part[1] if isinstance(self.part, tuple) else 1
        if state is not None and state.rows // parts > MAX_ROWS:
            raise DatabaseError(
                f"silver has {quantity(state.rows, 'row', form=',')}, and the source's side tells not of all keys: more "
                f"than {MAX_ROWS:,} would be looked at one by one; compare a share at a time (--share 1/8)"
            )

    def _round(self, text: RowText, suspects: Suspects) -> None:
        from spark.reconcile import job

        keys = sorted(suspects.pending)
        before = self.now.texts(self.table.id, text, keys)
        task = self._task(text)
        held = self.platform.spark().compare(lambda session, asked: job.suspects(session, asked, keys), task)
        after = self.now.texts(self.table.id, text, keys)
        known = self.now.key_filter(self.table.id)
        suspects.judge(before, held, after, [key for key in keys if known is not None and not known(key)])
        if suspects.pending:
            time.sleep(_PAUSE_SECONDS)


def _unread(records: int) -> dict[str, str]:
    return (
        {quantity(records, "record"): "could not be read, so nobody knows whose they are: cdc quarantine list"} if records else {}
    )


def _difference(key: str, row: Texts | None, held: Suspect) -> RowDifference:
    kind = "missing" if held.silver is None else "phantom" if row is None else "twice" if held.copies > 1 else "differs"
    where = place_of_damage(in_bronze=held.bronze == row, set_aside=held.set_aside)
    return RowDifference(key, kind, row, held.silver, where, max(1, held.copies))
