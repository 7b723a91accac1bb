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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError, DatabaseError
from cdc_assets.reconcile import lake
from cdc_assets.reconcile.result import DIFFERENT, EQUAL, NOT_COMPARED, Difference, TableResult, Veil
from cdc_assets.reconcile.slices import WHOLE
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import CapturedSource, Table
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.databases.cuts import AnyRows
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry.log_position import LogPosition

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

    def judge(self, before: Mapping[str, Texts], lake: Mapping[str, Suspect], after: Mapping[str, Texts]) -> None:
        """One round: S1, L, S2."""
        for key in sorted(self.pending):
            first, held, second = before.get(key), lake[key], after.get(key)
            if held.copies <= 1 and held.silver in (first, second):
                self.pending.discard(key)
                continue
            same = (first, held.silver, held.copies) if first == second else None
            if same is not None and self.last.get(key) == same:
                self.pending.discard(key)
                self.confirmed[key] = (first, held)
            self.last[key] = same


def compare(
    platform: Platform,
    source: CapturedSource,
    tables: Sequence[Table],
    *,
    now: AnyRows,
    carry: Carry,
    catalogue: Mapping[TableId, CatalogueTable],
    slices: Mapping[str, Slice] | None = None,
    rounds: int = ROUNDS,
) -> dict[str, TableResult]:
    """By short table name; what stands in the way of comparing is a result as well."""
    found = {}
    for table in tables:
        try:
            if table.id not in catalogue:
                raise DatabaseError(f"the source has no table {table.name}, or the role may not see it")
            part = (slices or {}).get(names.table_name(table), WHOLE)
            one = _Table(platform, source, table, now, carry, catalogue[table.id], part)
            found[names.table_name(table)] = one.compared(rounds)
        except CdcAssetsError as error:
            found[names.table_name(table)] = TableResult(
                f"{source.name}/{names.table_name(table)}", NOT_COMPARED, reason=str(error), method="two-step"
            )
    return found


@dataclass(frozen=True)
class _Table:
    platform: Platform
    source: CapturedSource
    table: Table
    now: AnyRows
    carry: Carry
    catalogue: CatalogueTable
    part: Slice

    def compared(self, rounds: int) -> TableResult:
        from spark.reconcile import job
        from spark.reconcile.row_text import slice_text

        text = lake.row_text(self.platform, self.source, self.table, self.catalogue, self.now.unwritten(self.catalogue))
        if not text.keys:
            raise DatabaseError(f"{self.table.name} has no key that can be compared: the two-step method reads keys again")
        started = time.monotonic()
        theirs = self.now.digest(self.table.id, text, self.part)
        task = self._task(text)
        ours = self.platform.spark().run(job.digest, task)
        differing = sorted(b for b in {*theirs, *ours} if theirs.get(b) != ours.get(b))
        suspects = Suspects(self._suspects(text, task, differing))
        asked = len(suspects.pending)
        for _ in range(rounds):
            if not suspects.pending:
                break
            self._round(text, suspects)
        result = TableResult(
            table=f"{self.source.name}/{names.table_name(self.table)}",
            verdict=DIFFERENT if suspects.confirmed else NOT_COMPARED if suspects.pending else EQUAL,
            reason=f"{len(suspects.pending)} key(s) were in flight in every round" if suspects.pending else "",
            source_rows=sum(rows for rows, _ in theirs.values()),
            silver_rows=sum(rows for rows, _ in ours.values()),
            buckets=len({*theirs, *ours}),
            buckets_differing=len(differing),
            share=slice_text(self.part),
            not_compared=text.not_compared,
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

        state, committed = lake.states(self.platform, self.source, self.table)
        return lake.task(self.platform, self.source, self.table, text, state, committed, self.carry(), Everything(), self.part)

    def _suspects(self, text: RowText, task: lake.Task, differing: Sequence[int]) -> set[str]:
        from spark.reconcile import job

        if not differing:
            return set()
        theirs = self.now.key_hashes(self.table.id, text, differing, self.part)
        ours = self.platform.spark().run(lambda session, asked: job.key_hashes(session, asked, differing), task)
        keys = {key for key, _ in (*(theirs - ours), *(ours - theirs))}
        if len(keys) > MAX_SUSPECTS:
            raise DatabaseError(f"{len(keys)} keys differ at first sight, more than {MAX_SUSPECTS}: is silver far behind?")
        return keys

    def _round(self, text: RowText, suspects: Suspects) -> None:
        from spark.reconcile import job

        keys = sorted(suspects.pending)
        before = self.now.texts(self.table.id, text, keys)
        task = self._task(text)
        held = self.platform.spark().run(lambda session, asked: job.suspects(session, asked, keys), task)
        after = self.now.texts(self.table.id, text, keys)
        suspects.judge(before, held, after)
        if suspects.pending:
            time.sleep(_PAUSE_SECONDS)


def _difference(key: str, row: Texts | None, held: Suspect) -> Difference:
    kind = "missing" if held.silver is None else "phantom" if row is None else "twice" if held.copies > 1 else "differs"
    return Difference(key, kind, row, held.silver, "silver" if held.bronze == row else "bronze or before it", max(1, held.copies))
