"""From buckets that differ to the keys that do, and both rows of each.

A key is different when the source's row is not the one that silver has at the cut. Where the cut hides events of the key
that silver had folded already, silver cannot say: bronze, folded up to the cut, speaks for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdc_assets.errors import CdcAssetsError
from cdc_assets.reconcile.lake import ComparedTable
from cdc_assets.reconcile.result import RowDifference, TableResult, Veil, place_of_damage
from cdc_assets.reconcile.verdict import EQUAL
from cdc_assets.resources.databases.cuts import SourceCut

if TYPE_CHECKING:
    from spark.reconcile.job import KeyHashes, Suspect, Task, Texts

# Key and hash of half a million rows take about 100 MB here.
MAX_ROWS = 500_000
MAX_SHOWN = 1000


@dataclass(frozen=True)
class HashedSides:
    """Rows (key and hash) of the source and of the lake."""

    source: KeyHashes
    lake: KeyHashes


def down(compared: ComparedTable, task: Task, cut: SourceCut, result: TableResult, differing: Sequence[int]) -> TableResult:
    """The result with its differing keys; equal after all where every suspect was only a matter of the cut."""
    from spark.reconcile import job

    table, text = compared.table, compared.text
    per_bucket = max(1, max(result.source_rows or 0, result.silver_rows or 0) // max(1, result.buckets))
    looked_at = differing[: max(1, MAX_ROWS // per_bucket)]
    source = cut.key_hashes(table.id, text, looked_at, task.part)
    lake = compared.platform.spark().compare(lambda session, asked: job.key_hashes(session, asked, looked_at), task)
    settled = len(looked_at) == len(differing)
    if not text.keys:
        return _with_differences(result, _whole_rows(source, lake), Veil(table.sensitive), tuple(text.forms), settled=settled)
    return of_keys(compared, task, cut, result, HashedSides(source, lake), settled=settled)


def of_keys(
    compared: ComparedTable,
    task: Task,
    cut: SourceCut,
    result: TableResult,
    sides: HashedSides,
    *,
    settled: bool = True,
) -> TableResult:
    """The same of the rows of both sides; `settled`: these are all that differ."""
    from spark.reconcile import job

    table, text, source, lake = compared.table, compared.text, sides.source, sides.lake
    missing, extra = source - lake, lake - source
    keys = sorted({key for key, _ in (*missing, *extra)})
    shown = keys[:MAX_SHOWN]
    answers = compared.platform.spark().compare(lambda session, asked: job.suspects(session, asked, shown), task) if shown else {}
    rows = cut.texts(table.id, text, shown) if shown else {}
    hashes = dict([*source])
    duplicates = Counter(key for key, _ in lake.elements())
    told = [_difference(key, hashes.get(key), rows.get(key), answers[key], duplicates[key]) for key in shown]
    found = [difference for difference in told if difference is not None]
    more = len(keys) - len(shown)
    # Of a key that was only a matter of the cut bronze speaks: whether it has a row. Of two ranges the source's keys are counted.
    counted = [key in hashes or result.looked_up is None for key in shown]
    cleared = [key for key, difference, is_counted in zip(shown, told, counted, strict=True) if is_counted and difference is None]
    moved = sum((answers[key].bronze_hash is not None) - duplicates[key] for key in cleared)
    result = replace(result, silver_rows=(result.silver_rows or 0) + moved)
    return _with_differences(result, found, Veil(table.sensitive), text.keys, settled=settled and not more, more=more)


def _difference(key: str, wanted: int | None, row: Texts | None, suspect: Suspect, copies: int) -> RowDifference | None:
    if wanted is not None and row is None:
        raise CdcAssetsError("the source's table was rewritten or truncated during the comparison; run it again")
    if suspect.hides and suspect.bronze_hash == wanted:
        return None
    silver = suspect.bronze if suspect.hides else suspect.silver
    kind = "missing" if silver is None else "phantom" if row is None else "twice" if copies > 1 else "differs"
    where = place_of_damage(in_bronze=suspect.bronze_hash == wanted, set_aside=suspect.set_aside)
    return RowDifference(key, kind, row, silver, where, max(1, copies))


def _whole_rows(source: KeyHashes, lake: KeyHashes) -> list[RowDifference]:
    """Rows without a key: how many copies one side has more of."""
    found = []
    for kind, more in (("missing", source - lake), ("phantom", lake - source)):
        found += [RowDifference(text, kind, None, None, "not told without a key", copies) for (text, _), copies in more.items()]
    return found


def _with_differences(
    result: TableResult, found: Sequence[RowDifference], veil: Veil, keys: tuple[str, ...], *, settled: bool, more: int = 0
) -> TableResult:
    if not found and settled:
        return replace(result, verdict=EQUAL, buckets_differing=0)
    shown = tuple(veil.over(d, keys) for d in found[:MAX_SHOWN])
    return replace(result, differences=shown, keys_differing=len(found) + more)
