"""The rules of the fold, on Arrow tables: from events to one change per key, and to the versions of a history.

Pure: no session, no path, no clock. A table of events has the columns of spark.silver.typed_changes.decode_changes: c0, c1, ...,
META, `absent`, `problem` and the record's place in its topic. All events of a key are in one table
(spark.silver.key_slices). What a table has of a key already is among them, as events of OF_TABLE: its row (a delete, where it is
marked as deleted), and a record of the key in quarantine. So nothing else asks what a row was.

In the order of a key's events a *base* is the newest event that says everything (a whole row, or a delete), a *hole* an event in
quarantine, and a *part* an event with absent columns: it can be folded when its base is a row and no hole lies between. Which
parts cannot depends on the key's events and their order only, never on how they were cut into batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark.events.positions import NUMBER_WIDTH
from spark.silver.typed_changes import AFTER_PROBLEM, MOVED, NO_ROW, key_slots, slot
from spark.specs import META, SilverSpec

POSITION = "_cdc_position"
BEHIND = "~"
"""Above every delivery of the event whose place it is put after, below the next event."""
OF_TABLE = ""
"""The topic of the events that say what a table has of a key already."""
_OFFSET_PART = 1 + NUMBER_WIDTH
_NUMBERS = pa.list_(pa.int32())
PROBLEM_TYPE = pa.struct([(name, pa.string()) for name in ("error_class", "column", "message")])
_HINT = "ALTER TABLE ... REPLICA IDENTITY FULL sends whole rows"
WITHOUT_REST = {
    NO_ROW: f"the event holds a part of its row, and there is no such row; {_HINT}",
    AFTER_PROBLEM: f"the event holds a part of its row, and an earlier record of its key is in quarantine; {_HINT}",
}
"""Why a part cannot be folded, by the problem's class."""
_MOVED = "the row has a new key, and what it was under the old one is not known; ALTER TABLE ... REPLICA IDENTITY FULL"


@dataclass(frozen=True)
class FoldPlan:
    """What of a table's spec decides the fold. `keys` and `rest` are slots.

    `tracked` are the slots whose changes make a version in a history.
    """

    keys: tuple[str, ...]
    rest: tuple[str, ...]
    keeps_deleted: bool = False
    partial: bool = False
    tracked: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: SilverSpec, tracked: Sequence[str] = ()) -> FoldPlan:
        """Of a table with this spec."""
        keys = key_slots(spec)
        rest = [slot(i) for i in range(len(spec.columns)) if slot(i) not in keys]
        return cls(tuple(keys), tuple(rest), spec.deletes == "soft", spec.partial, tuple(tracked))


@dataclass(frozen=True)
class KeyRuns:
    """Events by key and in the order of each; `first` is for each row the number of its key's first row."""

    rows: pa.Table
    first: np.ndarray

    @property
    def ends(self) -> np.ndarray:
        """The number of the last row of each key."""
        here = np.arange(len(self.first))
        return here[np.append(self.first[1:] == here[1:], True)] if len(here) else here

    def newest(self, mask: np.ndarray, *, before: bool = False) -> np.ndarray:
        """For each row the number of the newest of its key up to it, or `before` it, whose mask is true; -1: there is none."""
        numbers = np.maximum.accumulate(np.where(mask, np.arange(len(mask)), -1)) if len(mask) else np.empty(0, np.int64)
        if before:
            numbers = np.append([-1], numbers[:-1])[: len(mask)]
        return np.where(numbers < self.first, -1, numbers)

    def keep(self, mask: np.ndarray) -> KeyRuns:
        """Those of the rows."""
        return KeyRuns(self.rows.filter(pa.array(mask)), _first_rows(self.first[mask]))


def _first_rows(numbers: np.ndarray) -> np.ndarray:
    """For each of these numbers, equal ones side by side, where the first of its like stands."""
    begins = np.append(True, numbers[1:] != numbers[:-1])[: len(numbers)]
    return np.maximum.accumulate(np.where(begins, np.arange(len(numbers)), 0)) if len(numbers) else np.empty(0, np.int64)


def runs_by_key(events: pa.Table, keys: Sequence[str], order: Sequence[np.ndarray]) -> KeyRuns:
    """The events sorted by key, and within a key by these numbers, the most significant first."""
    numbers = key_numbers(events, keys)
    sorted_rows = np.lexsort([*reversed(order), numbers])
    in_order = bool((sorted_rows == np.arange(len(sorted_rows))).all())
    return KeyRuns(events if in_order else events.take(pa.array(sorted_rows)), _first_rows(numbers[sorted_rows]))


def key_numbers(events: pa.Table, keys: Sequence[str]) -> np.ndarray:
    """A number for each row, from 0 on without a gap, equal where the keys are, as Spark groups them: NULL is a value."""
    numbers = value_numbers(events[keys[0]])
    for key in keys[1:]:
        more = value_numbers(events[key])
        # Renumbered column by column, since a product of three columns' counts may not fit 64 bits.
        numbers = np.unique(numbers * (int(more.max(initial=0)) + 1) + more, return_inverse=True)[1].astype(np.int64)
    return numbers


def value_numbers(values: pa.ChunkedArray) -> np.ndarray:
    """A number for each value, equal where Spark holds them equal: NULL, NaN, and 0.0 with -0.0."""
    array = _whole(values)
    if pa.types.is_floating(array.type):
        array = pc.add(array, pa.scalar(0.0, array.type))
        array = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), array)
    elif pa.types.is_nested(array.type):
        array = pa.array([None if value is None else repr(_comparable(value)) for value in array.to_pylist()], pa.string())
    codes = array.dictionary_encode(null_encoding="encode").indices
    return codes.to_numpy(zero_copy_only=False).astype(np.int64)


def _comparable(value: object) -> object:
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, dict):
        return {name: _comparable(item) for name, item in value.items()}
    return [_comparable(item) for item in value] if isinstance(value, list | tuple) else value


def _whole(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return pa.concat_arrays(array.chunks) if isinstance(array, pa.ChunkedArray) else array


def text_ranks(texts: pa.ChunkedArray | pa.Array) -> np.ndarray:
    """Numbers in the order of the texts, equal where these are; NULL comes first."""
    if not len(texts):
        return np.empty(0, np.int64)
    array = _whole(texts)
    if not array.null_count:
        rises = pc.greater(array[1:], array[:-1]).to_numpy(zero_copy_only=False)
        if (rises | pc.equal(array[1:], array[:-1]).to_numpy(zero_copy_only=False)).all():
            return np.append([1], 1 + np.cumsum(rises))
    ranks = pc.rank(array, sort_keys="ascending", tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    return np.where(pc.is_null(array).to_numpy(zero_copy_only=False), 0, ranks)


def _mask(flags: pa.ChunkedArray | pa.Array) -> np.ndarray:
    return _whole(pc.fill_null(flags, False)).to_numpy(zero_copy_only=False).astype(bool)


def add_places(events: pa.Table, plan: FoldPlan) -> pa.Table:
    """The events with `place`, their position; a record whose position cannot be read comes right behind what its partition held
    of the key before it, and behind a replay of that as well. What the table has of the key was there before all of them."""
    positions = _whole(events[POSITION])
    if not positions.null_count:
        return events.append_column("place", positions)
    ranks, numbers = text_ranks(positions), key_numbers(events, plan.keys)
    of_table = _mask(pc.equal(events["topic"], OF_TABLE)) & _mask(pc.is_null(events["problem"]))
    rank_in_table = np.zeros(int(numbers.max(initial=0)) + 1, np.int64)
    np.maximum.at(rank_in_table, numbers[of_table], ranks[of_table])
    ranked = events.append_column("rank", pa.array(np.maximum(ranks, rank_in_table[numbers])))
    arrival = runs_by_key(ranked, [*plan.keys, "topic", "partition"], [_whole(events["offset"]).to_numpy()])
    # The highest of each partition's events of a key so far: a key's ranks lie above those of the keys before it.
    base = np.cumsum(arrival.first == np.arange(len(ranks))) * (len(ranks) + 1)
    highest = np.maximum.accumulate(_whole(arrival.rows["rank"]).to_numpy() + base) - base
    texts = pc.unique(positions.drop_null()).sort()
    behind = pc.binary_join_element_wise(pc.utf8_slice_codeunits(texts, 0, -_OFFSET_PART), BEHIND, "")
    places = pa.concat_arrays([pa.array([""]), behind]).take(pa.array(highest))
    rows = arrival.rows.drop_columns("rank")
    return rows.append_column("place", pc.coalesce(_whole(rows[POSITION]), places))


def _in_order(events: pa.Table, plan: FoldPlan) -> KeyRuns:
    placed = add_places(events, plan)
    unplaced = pc.is_null(_whole(placed[POSITION])).to_numpy(zero_copy_only=False)
    offsets = _whole(placed["offset"]).to_numpy()
    return runs_by_key(placed, plan.keys, [text_ranks(placed["place"]), unplaced, offsets])


def mark_problems(events: pa.Table, plan: FoldPlan) -> pa.Table:
    """The events, with the problem of those parts of rows that have nothing to be completed from.

    `events` is all there is of its keys, or what the table has of them and all that came since. Of a table whose events say which
    columns they are about, a part that finds no row is the whole row: it has nothing absent.
    """
    runs = _in_order(events, plan)
    rows = runs.rows
    fit = _mask(pc.is_null(rows["problem"]))
    operations = rows["_cdc_op"].to_numpy()
    if plan.partial:
        earlier = runs.newest(fit, before=True)
        begins = (earlier < 0) | (operations[earlier] == "d") if len(rows) else np.empty(0, bool)
        absent = pc.if_else(pa.array(begins), pa.scalar(None, rows["absent"].type), _whole(rows["absent"]))
        return _with_column(rows, "absent", absent).drop_columns("place")
    is_part = fit & _mask(pc.is_valid(rows["absent"]))
    if not is_part.any():
        return rows.drop_columns("place")
    base, hole = runs.newest(fit & ~is_part), runs.newest(~fit)
    ranks = text_ranks(rows["place"])
    behind_hole = is_part & (hole >= 0) & ((base < 0) | (ranks[hole] >= ranks[base]))
    no_row = is_part & ~behind_hole & ((base < 0) | (operations[base] == "d"))
    messages = {int(row): (AFTER_PROBLEM, WITHOUT_REST[AFTER_PROBLEM]) for row in np.flatnonzero(behind_hole)}
    messages |= {int(row): (NO_ROW, WITHOUT_REST[NO_ROW]) for row in np.flatnonzero(no_row)}
    return _put_problems(rows, messages).drop_columns("place")


def _put_problems(rows: pa.Table, messages: Mapping[int, tuple[str, str]]) -> pa.Table:
    """The rows, those of these numbers with this error class and message."""
    problems = _whole(rows["problem"])
    values = [{"error_class": name, "column": None, "message": message} for name, message in messages.values()]
    numbers = np.arange(rows.num_rows)
    numbers[list(messages)] = rows.num_rows + np.arange(len(messages))
    both = pa.concat_arrays([problems, pa.array(values, problems.type)])
    return _with_column(rows, "problem", both.take(pa.array(numbers)))


def _with_column(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), values)


def lacks(lists: pa.ChunkedArray) -> dict[str, np.ndarray]:
    """For each slot that one of the rows lacks, which rows those are; `lists` are their `absent`."""
    absent = _whole(lists)
    if absent.null_count == len(absent):
        return {}
    parents, numbers = pc.list_parent_indices(absent).to_numpy(), pc.list_flatten(absent).to_numpy(zero_copy_only=False)
    masks = {}
    for number in np.unique(numbers):
        mask = np.zeros(len(absent), bool)
        mask[parents[numbers == number]] = True
        masks[slot(int(number))] = mask
    return masks


def above(events: pa.Table, truncated: str | None) -> pa.Table:
    """The events that a TRUNCATE at this position has not made obsolete."""
    return events if truncated is None else events.filter(pc.greater(events[POSITION], truncated))


def are_parts(events: pa.Table, plan: FoldPlan) -> np.ndarray:
    """Which events do not hold their whole row; a soft delete keeps the row, but holds only its key."""
    parts = _mask(pc.is_valid(events["absent"]))
    return parts | _mask(pc.equal(events["_cdc_op"], "d")) if plan.keeps_deleted else parts


def fold_per_key(events: pa.Table, plan: FoldPlan) -> pa.Table:
    """One row per key of judged events: each column from the newest event that holds it.

    A soft delete keeps the row as it was, and holds no column but those of the key. Of a row that nobody has seen there is
    nothing to keep.
    """
    fit = events.filter(pc.is_null(events["problem"]))
    runs = runs_by_key(fit, plan.keys, [text_ranks(fit[POSITION])])
    rows, ends = runs.rows, runs.ends
    missing, deleted = lacks(rows["absent"]), np.zeros(rows.num_rows, bool)
    if plan.keeps_deleted:
        deleted = _mask(pc.equal(rows["_cdc_op"], "d")) & _mask(pc.not_equal(rows["topic"], OF_TABLE))
    folded = rows.select([*plan.keys, *plan.rest, *META]).take(pa.array(ends))
    for name in plan.rest:
        lack = missing.get(name, deleted) | deleted
        if lack.any():
            folded = _with_column(folded, name, _whole(rows[name]).take(_or_null(runs.newest(~lack)[ends])))
    unseen = deleted[ends] & (runs.newest(~deleted)[ends] < 0)
    return folded.filter(pa.array(~unseen)) if unseen.any() else folded


def list_numbers(gaps: Sequence[tuple[int, np.ndarray]], count: int) -> pa.Array:
    """`absent` of so many rows: for each the numbers whose mask is true; null where that is none."""
    flags = np.stack([mask for _, mask in gaps]) if gaps else np.zeros((0, count), bool)
    lengths, numbers = flags.sum(axis=0), np.array([number for number, _ in gaps], np.int32)
    ends = pa.array(np.append([0], np.cumsum(lengths)).astype(np.int32))
    values = pa.array(numbers[np.nonzero(flags.T)[1]], pa.int32())
    return pa.ListArray.from_arrays(ends, values, type=_NUMBERS, mask=pa.array(lengths == 0))


FACTS = ("late", "problems", "moved", "truncated")
"""Of a key's events: how many come late, cannot be folded, and are creates that lack values; and the newest TRUNCATE."""


def newest_per_key(events: pa.Table, plan: FoldPlan) -> pa.Table:
    """One row per key: its newest event that can be folded (all null where there is none), and FACTS.

    `is_late` says which events come late. A TRUNCATE has no key, and so stands in a row of its own or with the key of only NULLs.
    """
    numbers, ranks = key_numbers(events, plan.keys), text_ranks(events[POSITION])
    has_problem, operations = _mask(pc.is_valid(events["problem"])), _whole(events["_cdc_op"])
    is_truncate = _mask(pc.equal(operations, "t"))
    moved = _mask(pc.equal(operations, "c")) & _mask(pc.is_valid(events["absent"])) & ~has_problem
    any_event = _newest_of(numbers, ranks, np.ones(len(numbers), bool))
    newest = _or_null(_newest_of(numbers, ranks, ~has_problem & ~is_truncate))
    made = {name: _without_sign_of_zero(_whole(events[name]).take(pa.array(any_event))) for name in plan.keys}
    made |= {name: _whole(events[name]).take(newest) for name in (*plan.rest, *META, "absent")}
    for name, mask in (("late", _mask(events["is_late"])), ("problems", has_problem), ("moved", moved)):
        made[name] = pa.array(np.bincount(numbers[mask], minlength=len(any_event)), pa.int64())
    truncated = _or_null(_newest_of(numbers, ranks, ~has_problem & is_truncate))
    return pa.table({**made, "truncated": _whole(events[POSITION]).take(truncated)})


def newest_rows(changes: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The newest of each key of changes that can all be folded."""
    rows = _newest_of(key_numbers(changes, keys), text_ranks(changes[POSITION]), np.ones(changes.num_rows, bool))
    return changes if len(rows) == changes.num_rows else changes.take(pa.array(np.sort(rows)))


def _newest_of(numbers: np.ndarray, ranks: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """For each key, by its number, the row of the highest rank of those in the mask; -1: none is."""
    rows = np.flatnonzero(mask)
    if (ranks[rows][1:] < ranks[rows][:-1]).any():
        rows = rows[np.argsort(ranks[rows], kind="stable")]
    newest = np.full(int(numbers.max(initial=-1)) + 1, -1)
    # Of a key's rows the last one stays.
    newest[numbers[rows]] = rows
    return newest


def _or_null(numbers: np.ndarray) -> pa.Array:
    """The numbers to take; NULL for -1."""
    return pa.array(np.where(numbers < 0, 0, numbers), mask=numbers < 0)


def _without_sign_of_zero(values: pa.Array) -> pa.Array:
    """As Spark groups them: -0.0 is 0.0."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


def versions(events: pa.Table, plan: FoldPlan, truncates: Sequence[str]) -> pa.Table:
    """The versions that these events make: all there are of their keys, or those from a row of the history on, which has the
    position where its version began in `began`. `truncates` end every version before them, lowest first.

    A version is a run of events that change no tracked column, with nothing between that ended the row.
    """
    tells_row = pc.invert(pc.equal(events["_cdc_op"], "t").fill_null(False))
    judged = mark_problems(events.filter(tells_row), plan)
    fit = judged.filter(pc.is_null(judged["problem"]))
    filled = _fill_gaps(runs_by_key(fit, plan.keys, [text_ranks(fit[POSITION])]), plan)
    ended = _end_versions(filled, truncates)
    # A delete makes no version: it ends the one before it.
    alive = ended.keep(_mask(pc.not_equal(ended.rows["_cdc_op"], "d")))
    rows, starts = alive.rows, np.flatnonzero(_starts(alive, plan))
    ends = np.append(starts[1:], rows.num_rows)[: len(starts)] - 1
    newest = rows.select([*plan.keys, *plan.rest, *META, "_valid_to"]).take(pa.array(ends))
    began = pc.coalesce(rows["began"], rows[POSITION]) if "began" in rows.column_names else rows[POSITION]
    valid_from, valid_to = _whole(began).take(pa.array(starts)), newest["_valid_to"]
    made = newest.drop_columns("_valid_to").append_column("_valid_from", valid_from)
    return made.append_column("_valid_to", valid_to).append_column("_is_current", pc.is_null(valid_to))


def _fill_gaps(runs: KeyRuns, plan: FoldPlan) -> KeyRuns:
    """The events with what they lack from the newest event of their key that holds it."""
    rows = runs.rows
    for name, lack in lacks(rows["absent"]).items():
        rows = _with_column(rows, name, _whole(rows[name]).take(_or_null(runs.newest(~lack))))
    return KeyRuns(rows, runs.first)


def _end_versions(runs: KeyRuns, truncates: Sequence[str]) -> KeyRuns:
    """`_valid_to` is the position that ends what each event made: the next event of its key, or a TRUNCATE before that."""
    count, positions = runs.rows.num_rows, _whole(runs.rows[POSITION])
    following = np.arange(1, count + 1)
    is_last = np.isin(np.arange(count), runs.ends)
    ends = positions.take(pa.array(np.where(is_last, 0, following), mask=is_last))
    if truncates:
        after = np.searchsorted(np.array(truncates, object), positions.to_numpy(zero_copy_only=False), side="right")
        later = pa.array([*truncates, None], pa.string()).take(pa.array(after))
        ends = pc.min_element_wise(ends, later)
    return KeyRuns(runs.rows.append_column("_valid_to", ends), runs.first)


def _starts(runs: KeyRuns, plan: FoldPlan) -> np.ndarray:
    """Whether each event makes a version of its own, rather than changing the one that holds."""
    rows, count = runs.rows, runs.rows.num_rows
    before = np.arange(count) - 1
    starts = runs.first == np.arange(count)
    # The version before it has ended by something else: a delete or a TRUNCATE came between.
    ended = pc.equal(_whole(rows["_valid_to"])[: max(0, count - 1)], _whole(rows[POSITION])[1:])
    starts[1:] |= ~_mask(ended)
    for name in plan.tracked:
        numbers = value_numbers(rows[name])
        starts |= numbers != numbers[before]
    return starts


@dataclass(frozen=True)
class _RowBefore:
    """What stood under an old key right before a write took it away: the rows of events that hold its columns (-1: none), and the
    write that had moved it there, if its first event lacks something."""

    is_row: np.ndarray
    root: list[str | None]
    holders: dict[str, np.ndarray]
    at: dict[str, int]


def fill_creates(creates: pa.Table, events: pa.Table, plan: FoldPlan) -> pa.Table:
    """Creates that lack columns with what the row had under its old key, or with the problem MOVED.

    A change of the key is the delete of the old key and the create of the new one, of one `write`. `events` are those of the old
    keys, with `write`, and with `lacks`: whether one is such a create itself. The row before the delete counts, not as it is in
    the table. Chains and swaps lead from create to create.
    """
    runs = _in_order(events, plan)
    before = _rows_before(runs, plan)
    missing = lacks(creates["absent"])
    sources = {name: np.full(creates.num_rows, -1) for name in missing}
    unclear = dict[int, tuple[str, str]]()
    for row, write in enumerate(creates["write"].to_pylist()):
        columns = [name for name, mask in missing.items() if mask[row]]
        holders = _holders(before, write, columns)
        if holders is None:
            unclear[row] = MOVED, _MOVED
        for name, holder in (holders or {}).items():
            sources[name][row] = holder
    filled = creates
    for name, source in sources.items():
        both = pa.concat_arrays([_whole(creates[name]), _whole(runs.rows[name])])
        numbers = np.where(source < 0, np.arange(creates.num_rows), source + creates.num_rows)
        filled = _with_column(filled, name, both.take(pa.array(numbers)))
    is_unclear = np.isin(np.arange(creates.num_rows), list(unclear))
    absent = pc.if_else(pa.array(is_unclear), _whole(filled["absent"]), pa.scalar(None, filled["absent"].type))
    return _put_problems(_with_column(filled, "absent", absent), unclear)


def fill_slices(rows: pa.Table, plan: FoldPlan) -> pa.Table:
    """The same of the rows of each `slice`: `creates` says which of them are the creates; the others are their events."""
    filled = []
    for number in pc.unique(rows["slice"]):
        of_slice = rows.filter(pc.equal(rows["slice"], number))
        filled.append(fill_creates(of_slice.filter(of_slice["creates"]), of_slice.filter(pc.invert(of_slice["creates"])), plan))
    return pa.concat_tables(filled)


def _rows_before(runs: KeyRuns, plan: FoldPlan) -> _RowBefore:
    rows, count = runs.rows, runs.rows.num_rows
    fit, from_elsewhere = _mask(pc.is_null(rows["problem"])), _mask(rows["lacks"])
    operations, writes = rows["_cdc_op"].to_numpy(), rows["write"].to_pylist()
    # A row begins with an event that says everything, or with one that says it comes from another key.
    begin = runs.newest(fit & (_mask(pc.is_null(rows["absent"])) | from_elsewhere))
    is_row = (begin >= 0) & (operations[begin] != "d") & (runs.newest(~fit) < begin)
    root = [writes[at] if at >= 0 and from_elsewhere[at] else None for at in begin]
    missing, deleted = lacks(rows["absent"]), (operations == "d") & plan.keeps_deleted
    holders = {}
    for name in plan.rest:
        holder = runs.newest(fit & ~missing.get(name, np.zeros(count, bool)) & ~deleted)
        holders[name] = np.where(holder < begin, -1, holder)
    is_delete = np.flatnonzero(fit & (operations == "d"))
    positions = _whole(rows[POSITION]).to_pylist()
    at = dict[str, int]()
    # A delivery repeated: the first one stands behind the row, the others behind the first.
    for row in sorted(is_delete, key=lambda row: positions[row] or "", reverse=True):
        at[writes[row]] = int(row) - 1 if row > runs.first[row] else -1
    return _RowBefore(is_row, root, holders, at)


def _holders(before: _RowBefore, write: str | None, names: Sequence[str]) -> dict[str, int] | None:
    """For each of these columns the event that holds it, along the chain of writes that moved the row; None: not all is known."""
    holders, seen = dict[str, int](), set[str]()
    while write is not None:
        at = before.at.get(write, -1)
        if at < 0 or not before.is_row[at] or write in seen:
            return None
        seen.add(write)
        for name in names:
            if name not in holders and before.holders[name][at] >= 0:
                holders[name] = int(before.holders[name][at])
        write = before.root[at]
    return holders if len(holders) == len(names) else None
