"""The keys of a table that differ, and what is wrong with each: judged once at a cut, or round by round until it is stable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cdc_assets.proof.compared_table import ComparedTable, SourceSide
from cdc_assets.proof.comparison_result import EQUAL, RowDifference, TableResult, Veil, place_of_damage
from cdc_assets.registry.errors import CdcAssetsError

if TYPE_CHECKING:
    from spark.proof.bucket_sums import KeyHashes, Suspect, Task, Texts

MAX_SHOWN = 1000


@dataclass(frozen=True)
class HashedSides:
    """Rows (key and hash) of the source and of the lake."""

    source: KeyHashes
    lake: KeyHashes

    @property
    def differing_keys(self) -> list[str]:
        """The keys (texts) whose rows are not the same on both sides, in order."""
        return sorted({key for key, _ in (*(self.source - self.lake), *(self.lake - self.source))})


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


def rows_of_keys(
    compared: ComparedTable, task: Task, side: SourceSide, result: TableResult, sides: HashedSides, *, settled: bool = True
) -> TableResult:
    """The result with the keys that differ at a cut; `settled`: these are all.

    A key is different when the source's row is not the one that silver has at the cut. Where the cut hides events of the key
    that silver had folded already, silver cannot say: bronze, folded up to the cut, speaks for it.
    """
    from spark.proof import bucket_sums

    text, keys = compared.text, sides.differing_keys
    shown, more = keys[:MAX_SHOWN], max(0, len(keys) - MAX_SHOWN)
    answers: Mapping[str, Suspect] = {}
    rows: Mapping[str, Texts] = {}
    if shown:
        spark = compared.chain.platform.spark()
        answers = spark.compare(lambda session, asked: bucket_sums.suspects(session, asked, shown), task)
        rows = side.rows.texts(compared.table.id, text, shown)
    hashes, copies = dict([*sides.source]), Counter(key for key, _ in sides.lake.elements())
    judged = {key: _judge_at_cut(key, hashes.get(key), rows.get(key), answers[key], copies[key]) for key in shown}
    differences = [difference for difference in judged.values() if difference is not None]
    # Of a key that was only a matter of the cut bronze speaks: whether it has a row. Of two ranges the source's keys are counted.
    cleared = [k for k, difference in judged.items() if difference is None and (k in hashes or result.looked_up is None)]
    moved = sum((answers[key].bronze_hash is not None) - copies[key] for key in cleared)
    result = replace(result, silver_rows=(result.silver_rows or 0) + moved)
    return with_differences(
        result, differences, Veil(compared.table.sensitive), text.keys, settled=settled and not more, more=more
    )


def _judge_at_cut(key: str, wanted: int | None, row: Texts | None, suspect: Suspect, copies: int) -> RowDifference | None:
    if wanted is not None and row is None:
        raise CdcAssetsError("the source's table was rewritten or truncated during the comparison; run it again")
    if suspect.hides and suspect.bronze_hash == wanted:
        return None
    silver = suspect.bronze if suspect.hides else suspect.silver
    return difference_of(key, row, suspect, silver, copies, in_bronze=suspect.bronze_hash == wanted)


def difference_of(
    key: str, row: Texts | None, suspect: Suspect, silver: Texts | None, copies: int, *, in_bronze: bool | None = None
) -> RowDifference:
    """What is wrong with a key. `in_bronze`: whether bronze has the source's row, where its hash says so; else by its texts."""
    kind = "missing" if silver is None else "phantom" if row is None else "twice" if copies > 1 else "differs"
    found_in_bronze = suspect.bronze == row if in_bronze is None else in_bronze
    where = place_of_damage(in_bronze=found_in_bronze, set_aside=suspect.set_aside)
    return RowDifference(key, kind, row, silver, where, max(1, copies))


def whole_rows(sides: HashedSides) -> list[RowDifference]:
    """Rows without a key: how many copies one side has more of."""
    more_of = {"missing": sides.source - sides.lake, "phantom": sides.lake - sides.source}
    return [
        RowDifference(text, kind, None, None, "not told without a key", copies)
        for kind, more in more_of.items()
        for (text, _), copies in more.items()
    ]


def with_differences(
    result: TableResult, differences: Sequence[RowDifference], veil: Veil, keys: tuple[str, ...], *, settled: bool, more: int = 0
) -> TableResult:
    """The result with these, and `more` that are only counted; `settled`: there are no others."""
    if not differences and settled:
        return replace(result, verdict=EQUAL, buckets_differing=0)
    shown = tuple(veil.over(d, keys) for d in differences[:MAX_SHOWN])
    return replace(result, differences=shown, keys_differing=len(differences) + more)
