"""Which slice of a large table is compared now: another one each time, all of the table in as many runs as it has shares; a
part in which keys differed stays open until a comparison of it finds none.

Where no order of the key is known on both sides, rows are compared one by one. Cursors and open parts are kept in
`$CDC_HOME/reconciliation/`; lost files only start the round again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.databases.source_cut import OwnOrderRows
from cdc_assets.clients.delta_log import SilverState, silver_state
from cdc_assets.clients.kind_clients import open_rows
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.spark_sessions import SparkSessions
from cdc_assets.proof.compared_table import ComparedTable, Share, row_text
from cdc_assets.proof.comparison_result import DIFFERENT, EQUAL, INCONCLUSIVE, HistoryResult, TableResult
from cdc_assets.registry import names, settings
from cdc_assets.registry.durable_file import read_json, replace_json
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import Source
from cdc_assets.registry.table_declaration import Table

if TYPE_CHECKING:
    from spark.proof.bucket_sums import KeyHashes, Task
    from spark.proof.key_order import Bound, KeyRange, TwoRanges
    from spark.proof.row_text import RowText, Slice


@dataclass(frozen=True)
class OwnOrderTable:
    """A table of the source, read in the source's own order of its key, and how its rows are written.

        the source's range   its rows, and silver's of exactly these keys: what silver has not, has otherwise, or has twice
        silver's range       its keys, looked up at the source: what silver has, and the source has not

    Both are read at one cut. What the first shows of a key the second does not tell again: a damaged row is found once a round.
    """

    rows: OwnOrderRows
    id: TableId
    text: RowText


@dataclass(frozen=True)
class Ours:
    """Silver's rows (key and hash) that should be those of the source's range; how many of these keys, and how many looked up."""

    rows: KeyHashes
    compared: int
    looked_up: int


def following(
    sessions: SparkSessions,
    table: OwnOrderTable,
    *,
    version: int,
    count: int,
    after: tuple[Bound | None, Bound | None],
) -> TwoRanges:
    """The next ranges above the last ones' ends: of `count` keys in the source, of about half as many in silver at a version.

    A look-up costs the source more than a row of a range does, where comparing two texts is dear.
    """
    from spark.proof.bucket_sums import Next, range_end
    from spark.proof.key_order import KeyRange, TwoRanges

    theirs, ours = after
    text = table.text
    end = table.rows.range_end(table.id, text, theirs, count)
    silver_end = sessions.compare(range_end, Next(text.spec, version, ours, max(1, count // 2), by_text=True))
    key = text.in_own_order.declared
    return TwoRanges(KeyRange(key, theirs, end), KeyRange(key, ours, silver_end))


def silver_at_cut(sessions: SparkSessions, task: Task, table: OwnOrderTable, part: TwoRanges, in_range: KeyHashes) -> Ours:
    """Silver's side; `in_range` are the rows of the source's range, and `table` is read at the same moment."""
    from spark.proof import bucket_sums

    keys = {key for key, _ in in_range}
    rows_here = sessions.compare(lambda session, asked: bucket_sums.two_ranges(session, asked, sorted(keys), part.lake), task)
    unseen = {key: values for key, values in rows_here.values.items() if key not in keys}
    there = keys | table.rows.present(table.id, table.text, unseen)
    phantoms = Counter({row: copies for row, copies in rows_here.ranged.items() if row[0] not in there})
    return Ours(rows_here.asked + phantoms, rows_here.asked.total(), len(rows_here.values))


KeyBound = tuple[int | str, ...]


def cursor_of_source(table: str) -> str:
    """The place in the source's own order."""
    return f"{table}:source"


def cursor_of_silver(table: str) -> str:
    """The place in the order of silver's texts."""
    return f"{table}:silver"


def last_compared_key(source: str, table: str, columns: tuple[str, ...]) -> KeyBound | None:
    """The last key that was compared; None at the begin of a round, and where the key has become another.

        $CDC_HOME/reconciliation/<source>.json  {"<table>": {"columns": [...], "after": [...]}}

    A table that is compared by two ranges (spark.proof.key_order) has two places: `<table>:source` and `<table>:silver`.

    Each range begins where an earlier one ended, so every key value is compared in each round, whatever is written meanwhile.
    Two runs at the same time compare a range twice; none is left out. A lost file only starts the round again.
    """
    cursor = _read_cursors(source).get(table)
    return tuple(cursor["after"]) if cursor and tuple(cursor["columns"]) == columns else None


def keep_ends(source: str, ends: Mapping[str, tuple[tuple[str, ...], KeyBound | None]]) -> None:
    """Keep the ends (columns, last key) of the ranges that were compared, by table; None: the round is over."""
    if not ends:
        return
    kept = _read_cursors(source)
    for table, (columns, end) in ends.items():
        kept.pop(table, None)
        if end is not None:
            kept[table] = {"columns": list(columns), "after": list(end)}
    replace_json(settings.home() / "reconciliation" / f"{source}.json", kept)


def _read_cursors(source: str) -> dict[str, Any]:
    # A file that is broken, or not there: a new round compares all of it again.
    with suppress(OSError, ValueError):
        return dict(read_json(settings.home() / "reconciliation" / f"{source}.json") or {})
    return {}


CutSlices: TypeAlias = "Mapping[str, Slice | TwoRanges]"
"""By short table name; two ranges only where rows are read at a cut."""
STATEMENT_TIMEOUT = 600.0
# Keys and hashes of two ranges are brought here: of tables above 12,700,000 rows more runs than `shares` make a round.
MOST_KEYS = 100_000


def share_at(shares: int, *, every: float, now: float) -> Share:
    """(part, parts); `every` and `now` in seconds."""
    return int(now // max(60.0, every)) % shares, shares


def slices_now(chain: Chain[Source], tables: Sequence[Table]) -> dict[str, Slice | TwoRanges]:
    """By short table name; tables that are compared whole are left out.

    Of a key whose order is the same on both sides (spark.proof.key_order) the next range of keys, from where the last run ended
    (`last_compared_key`): at the source that is a range of the key's index. Its end is chosen by the keys that silver has; the
    source may have more of them in it, which are all compared. Of other primary keys the next range in the source's own order,
    and the next one in silver's (spark.proof.key_order). Of what is left (no primary key, a sensitive one, types that are not
    asked for by their texts) a share by the clock: with a rhythm of five minutes, each of N is looked at every N times five
    minutes.
    """
    large = {}
    for table in tables:
        declared = chain.source.reconciliation_of(table)
        state = silver_state(chain.silver_path(table))
        if state is not None and state.rows > declared.max_rows and declared.shares > 1:
            large[table.name] = (table, state, declared.shares)
    if not large:
        return {}
    try:
        catalogue = chain.platform.database(chain.source).tables([table.id for table, _, _ in large.values()])
    except CdcAssetsError:
        # The comparison meets it as well, and says so.
        catalogue = {}
    return {
        names.table_name(table): _slice(chain, table, state, shares, catalogue.get(table.id))
        for table, state, shares in large.values()
    }


def advance_cursors(source: Source, slices: CutSlices, results: Mapping[str, TableResult]) -> None:
    """The ranges of these results need not be read again in this round."""
    from spark.proof.key_order import KeyRange, TwoRanges

    ends = {}
    for name, compared_slice in slices.items():
        if results[name].verdict == INCONCLUSIVE:
            continue
        if isinstance(compared_slice, TwoRanges):
            for cursor, keys in ((cursor_of_source(name), compared_slice.source), (cursor_of_silver(name), compared_slice.lake)):
                ends[cursor] = keys.columns, keys.to
        elif isinstance(compared_slice, KeyRange):
            ends[name] = compared_slice.columns, compared_slice.to
    keep_ends(source.name, ends)


def _slice(
    chain: Chain[Source], table: Table, state: SilverState, shares: int, catalogued: CatalogueTable | None
) -> Slice | TwoRanges:
    every = (table.volumetry or chain.source.volumetry).every.total_seconds()
    by_clock = share_at(shares, every=every, now=time.time())
    if catalogued is None:
        return by_clock
    try:
        text = row_text(chain, table, catalogued)
        # A range's ends are values of the key, which are kept and shown: not those of sensitive columns.
        if set(text.keys) & set(table.sensitive):
            return by_clock
        compared = ComparedTable(chain, table, text)
        in_own_order = (
            text.own is not None and text.keys == catalogued.primary_key and chain.source.reconciliation.standby is None
        )
        if text.order is not None and (text.order.by_index() or not in_own_order):
            return _next_range(compared, state, shares)
        if not in_own_order:
            return by_clock
        with open_rows(chain.platform.database(chain.source), statement_timeout=STATEMENT_TIMEOUT) as rows:
            if text.order is not None and text.order.by_index(rows.bytewise(table.id)):
                return _next_range(compared, state, shares)
            return _two_ranges(compared, state, shares, rows)
    except CdcAssetsError:
        return by_clock


def _next_range(compared: ComparedTable, state: SilverState, shares: int) -> KeyRange:
    from spark.proof.bucket_sums import Next, range_end
    from spark.proof.key_order import KeyRange

    text = compared.text
    after = last_compared_key(compared.chain.source.name, names.table_name(compared.table), text.keys)
    range_wanted = Next(text.spec, state.version, after, max(1, state.rows // shares))
    return KeyRange(text.keys, after, compared.chain.platform.spark().compare(range_end, range_wanted))


def _two_ranges(compared: ComparedTable, state: SilverState, shares: int, rows: OwnOrderRows) -> TwoRanges:
    table, text, source = compared.table, compared.text, compared.chain.source.name
    count, name = max(1, min(state.rows // shares, MOST_KEYS)), names.table_name(table)
    key = text.in_own_order.declared
    after = (last_compared_key(source, cursor_of_source(name), key), last_compared_key(source, cursor_of_silver(name), key))
    there = OwnOrderTable(rows, table.id, text)
    sessions = compared.chain.platform.spark()
    return following(sessions, there, version=state.version, count=count, after=after)


Result = TypeVar("Result", TableResult, HistoryResult)
# Of more than these the check is red anyway; the round finds the others again.
MOST_OPEN = 8


def with_earlier(
    source: str, parts: CutSlices, results: Mapping[str, Result], compare: Callable[[str, Any], Result]
) -> dict[str, Result]:
    """These results, by table; of a table whose part is equal, but in which an earlier one still differs, the earlier one's.

    `compare` takes a table and a part.
    Earlier parts are compared again, oldest first, up to the first that is not equal: one comparison more while one differs.

    Each run compares the next part (`slices_now`): without this a check would pass again five minutes after it found a
    difference, with nothing mended, until the round comes back to it.

        $CDC_HOME/reconciliation/<source>.differing.json  {"<table>": [<part>, ...]}, oldest first
    """
    from spark.proof.row_text import slice_text

    kept = _read_open(source)
    with_kept, after = dict(results), dict(kept)
    for name, result in results.items():
        compared_slice = parts.get(name)
        earlier: list[Any] = [p for p in kept.get(name, []) if compared_slice is not None and _alike(p, compared_slice)]
        if result.verdict == DIFFERENT and compared_slice is not None and compared_slice not in earlier:
            earlier = [*earlier, compared_slice][:MOST_OPEN]
        while earlier and result.verdict == EQUAL:
            result_again = result if earlier[0] == compared_slice else compare(name, earlier[0])
            if result_again.verdict != EQUAL:
                with_kept[name] = replace(result_again, earlier=True, share=slice_text(earlier[0]))
                break
            earlier = earlier[1:]
        after[name] = earlier
    after = {name: left for name, left in after.items() if left}
    if after != kept:
        replace_json(_file(source), {name: [_to_json(p) for p in left] for name, left in after.items()})
    return with_kept


def _alike(part: Slice | TwoRanges, now: Slice | TwoRanges) -> bool:
    """Whether it is a part of the same round: of another key, or in another number of shares, the table is looked at anew."""
    if isinstance(part, tuple) or isinstance(now, tuple):
        return isinstance(part, tuple) and isinstance(now, tuple) and part[1] == now[1]
    return type(part) is type(now) and _columns(part) == _columns(now)


def _columns(part: KeyRange | TwoRanges) -> tuple[str, ...]:
    from spark.proof.key_order import TwoRanges

    return part.source.columns if isinstance(part, TwoRanges) else part.columns


def _to_json(part: Slice | TwoRanges) -> dict[str, Any]:
    from spark.proof.key_order import TwoRanges

    if isinstance(part, tuple):
        return {"share": list(part)}
    if isinstance(part, TwoRanges):
        return {"source": _range_json(part.source), "lake": _range_json(part.lake)}
    return {"range": _range_json(part)}


def _range_json(keys: KeyRange) -> dict[str, Any]:
    return {"columns": keys.columns, "after": keys.after, "to": keys.to}


def _from_json(data: Mapping[str, Any]) -> Slice | TwoRanges:
    from spark.proof.key_order import TwoRanges

    if "share" in data:
        number, parts = data["share"]
        return int(number), int(parts)
    if "lake" in data:
        return TwoRanges(_range_in_cursor(data["source"]), _range_in_cursor(data["lake"]))
    return _range_in_cursor(data["range"])


def _range_in_cursor(data: Mapping[str, Any]) -> KeyRange:
    from spark.proof.key_order import KeyRange

    after, to = (None if data[end] is None else tuple(data[end]) for end in ("after", "to"))
    return KeyRange(tuple(data["columns"]), after, to)


def _read_open(source: str) -> dict[str, list[Slice | TwoRanges]]:
    # A file that is broken, or not there: the round comes back to each part.
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        open_slices = read_json(_file(source)) or {}
        return {name: [_from_json(slice_data) for slice_data in parts] for name, parts in open_slices.items()}
    return {}


def _file(source: str) -> Path:
    return settings.home() / "reconciliation" / f"{source}.differing.json"
