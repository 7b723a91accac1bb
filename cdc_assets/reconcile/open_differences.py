"""Parts of large tables in which keys differed, kept over restarts until a comparison of the same part finds none.

Each run compares the next part (slices): without this a check would pass again five minutes after it found a difference, with
nothing mended, until the round comes back to it.

    $CDC_HOME/reconciliation/<source>.differing.json  {"<table>": [<part>, ...]}, oldest first
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cdc_assets import settings
from cdc_assets.durable_file import replace_json
from cdc_assets.reconcile.history_result import HistoryResult
from cdc_assets.reconcile.result import TableResult
from cdc_assets.reconcile.slices import CutSlices
from cdc_assets.reconcile.verdict import DIFFERENT, EQUAL

if TYPE_CHECKING:
    from spark.reconcile.key_order import KeyRange
    from spark.reconcile.own_order import TwoRanges
    from spark.reconcile.row_text import Slice

Result = TypeVar("Result", TableResult, HistoryResult)
# Of more than these the check is red anyway; the round finds the others again.
MOST = 8


def with_earlier(
    source: str, parts: CutSlices, results: Mapping[str, Result], compare: Callable[[str, Any], Result]
) -> dict[str, Result]:
    """These results, by table; of a table whose part is equal, but in which an earlier one still differs, the earlier one's.

    `compare` takes a table and a part.
    Earlier parts are compared again, oldest first, up to the first that is not equal: one comparison more while one differs.
    """
    from spark.reconcile.row_text import slice_text

    kept = _read(source)
    found, after = dict(results), dict(kept)
    for name, result in results.items():
        part = parts.get(name)
        earlier: list[Any] = [p for p in kept.get(name, []) if part is not None and _alike(p, part)]
        if result.verdict == DIFFERENT and part is not None and part not in earlier:
            earlier = [*earlier, part][:MOST]
        while earlier and result.verdict == EQUAL:
            told = result if earlier[0] == part else compare(name, earlier[0])
            if told.verdict != EQUAL:
                found[name] = replace(told, earlier=True, share=slice_text(earlier[0]))
                break
            earlier = earlier[1:]
        after[name] = earlier
    after = {name: left for name, left in after.items() if left}
    if after != kept:
        replace_json(_file(source), {name: [_to_json(p) for p in left] for name, left in after.items()})
    return found


def _alike(part: Slice | TwoRanges, now: Slice | TwoRanges) -> bool:
    """Whether it is a part of the same round: of another key, or in another number of shares, the table is looked at anew."""
    if isinstance(part, tuple) or isinstance(now, tuple):
        return isinstance(part, tuple) and isinstance(now, tuple) and part[1] == now[1]
    return type(part) is type(now) and _columns(part) == _columns(now)


def _columns(part: KeyRange | TwoRanges) -> tuple[str, ...]:
    from spark.reconcile.own_order import TwoRanges

    return part.source.columns if isinstance(part, TwoRanges) else part.columns


def _to_json(part: Slice | TwoRanges) -> dict[str, Any]:
    from spark.reconcile.own_order import TwoRanges

    if isinstance(part, tuple):
        return {"share": list(part)}
    if isinstance(part, TwoRanges):
        return {"source": _range_json(part.source), "lake": _range_json(part.lake)}
    return {"range": _range_json(part)}


def _range_json(keys: KeyRange) -> dict[str, Any]:
    return {"columns": keys.columns, "after": keys.after, "to": keys.to}


def _from_json(data: Mapping[str, Any]) -> Slice | TwoRanges:
    from spark.reconcile.own_order import TwoRanges

    if "share" in data:
        part, parts = data["share"]
        return int(part), int(parts)
    if "lake" in data:
        return TwoRanges(_range(data["source"]), _range(data["lake"]))
    return _range(data["range"])


def _range(data: Mapping[str, Any]) -> KeyRange:
    from spark.reconcile.key_order import KeyRange

    after, to = (None if data[end] is None else tuple(data[end]) for end in ("after", "to"))
    return KeyRange(tuple(data["columns"]), after, to)


def _read(source: str) -> dict[str, list[Slice | TwoRanges]]:
    # Not written by a version that is known, or not there: the round comes back to each part.
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        found = json.loads(_file(source).read_text(encoding="utf-8"))
        return {name: [_from_json(part) for part in parts] for name, parts in found.items()}
    return {}


def _file(source: str) -> Path:
    return settings.home() / "reconciliation" / f"{source}.differing.json"
