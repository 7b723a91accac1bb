"""Which column a field of an event belongs to, where the columns have changed.

An event names its fields, and a name says nothing once columns were exchanged, or one was dropped and added again: the event
may be of before or after that, or of a time between two looks at the catalogue, when a column had a name that nobody has seen.
But its fields stand in the order of the columns' numbers (pg_attribute.attnum), as PostgreSQL's logical decoding and Debezium
keep it. So the names in their order tell under which schema an event was written:

    known orders   id 1, a 2, b 3   and then   id 1, b 2, a 3, c 4
    fields of an event   id, tmp, b   =>   tmp is column 2, b is column 3
    fields of an event   id, b, a, new   =>   new is column 4

What the order does not tell: the last column dropped and added again, in the same place under the same name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.specs import Column, Order
from spark.table.identifiers import literal

Columns = tuple[tuple[str, int], ...]
_MOST_ORDERS, _MOST_STATES = 8, 2048
GONE = 0
"""In the place of a field whose column the source has no longer."""
UNTOLD = "columns went and came, and had other names meanwhile: which of them the event's fields are cannot be told: "
"""Why an event is set aside whose fields may be these columns or those; the fields follow."""


def order_of(columns: Sequence[Column], *, after: str = "") -> Order:
    """The names of a table's columns in the order of their numbers, none where these are not known."""
    numbered = [(c.event_field, c.number) for c in columns if c.number is not None]
    return after, tuple(sorted(numbered, key=lambda pair: pair[1])) if len(numbered) == len(columns) else ()


def orders_with(orders: Sequence[Order], was: Order, now: Order) -> tuple[Order, ...]:
    """The known orders with one more, the newest last. Where the numbers before are not known, nothing before counts."""
    newest = orders[-1][1] if orders else ()
    if not was[1] or not now[1]:
        return ()
    if now[1] in (was[1], newest):
        return tuple(orders)
    before = orders if was[1] == newest else (*orders, was)
    return (*before, now)[-_MOST_ORDERS:]


def are_needed(orders: Sequence[Order]) -> bool:
    """Whether an event's fields may have other names than the columns have now."""
    return len(orders) > 1


def numbers_of(fields: str, orders: Sequence[Order], position: str = "position") -> Expression:
    """The numbers of the columns that an event's fields belong to, GONE for those that the source has no longer.

    One array of numbers where the order tells, several where it may be these or those, none or null where nothing fits.
    `fields` is the SQL of an array of names. The answer is SQL too: Spark Connect's messages nest 100 levels at most.
    """
    now = {number for _, number in orders[-1][1]}
    cases = [
        f"WHEN {position} > {literal(after)} AND {fields} = {_names(name for name, _ in columns)} "
        f"THEN array({_numbers(n if n in now else GONE for _, n in columns)})"
        for after, columns in reversed(orders)
    ]
    return sf.expr(f"CASE {' '.join(cases)} ELSE {_fewest_strange(fields, orders, position)} END")


def _fewest_strange(fields: str, orders: Sequence[Order], position: str) -> str:
    """Of the sets of columns that there may have been, those in which the fewest fields have a name that is not theirs."""
    states: dict[tuple[int, ...], str] = {}
    for (_, before), (after, columns) in pairwise(orders):
        for state in _states(before, columns):
            states.setdefault(state, after)
    pairs = [pair for _, columns in orders for pair in columns]
    own = {n: _names(name for name, number in pairs if number == n) for state in states for n in state}
    names = f"map({', '.join(f'{number}, {own_names}' for number, own_names in own.items())})"
    # One text, and not thousands of numbers that Spark would analyse one by one.
    listed = literal(json.dumps([{"columns": state, "after": after} for state, after in states.items()]))
    possible = f"from_json({listed}, 'array<struct<columns: array<int>, after: string>>')"
    fitting = f"filter({possible}, state -> size(state.columns) = size({fields}) AND {position} > state.after)"
    strange = f"(n, field) -> CASE WHEN NOT array_contains({names}[n], field) THEN named_struct('n', n, 'field', field) END"
    judged_state = (
        f"named_struct('columns', state.columns, 'strange', array_compact(zip_with(state.columns, {fields}, {strange})))"
    )
    # A name that is another column's is free where that one has another name by then, or is not there.
    wrong = f"arrays_overlap(found.strange.field, flatten(transform(found.strange.n, n -> {names}[n])))"
    kept = f"transform(found.columns, n -> IF(array_contains({_numbers(n for _, n in orders[-1][1])}, n), n, {GONE}))"
    return f"""aggregate(
      filter(transform({fitting}, state -> {judged_state}), found -> NOT {wrong}),
      CAST(NULL AS struct<odd: int, told: array<array<int>>>),
      (best, found) -> CASE
        WHEN best IS NULL OR size(found.strange) < best.odd THEN named_struct('odd', size(found.strange), 'told', array({kept}))
        WHEN size(found.strange) = best.odd THEN named_struct('odd', best.odd, 'told', array_union(best.told, array({kept})))
        ELSE best END,
      best -> best.told)"""


def _states(before: Columns, after: Columns) -> Iterator[tuple[int, ...]]:
    """The sets of columns that the table may have had from one order to the next.

    Columns come in the order of their numbers, and go in any order; some came and went, and nobody saw them.
    """
    was, now = [number for _, number in before], [number for _, number in after]
    new = [n for n in range(max(was) + 1, max(now) + 1) if n not in was]
    gone = sorted({*was, *new} - {*now})
    if 2 ** len(gone) * (len(new) + 1) > _MOST_STATES:
        yield from (tuple(now), tuple(was))
        return
    for come in range(len(new) + 1):
        there = {*was, *new[:come]}
        for count in range(len(gone) + 1):
            for left in combinations(gone, count):
                yield tuple(sorted(there - {*left}))


def _numbers(numbers: Iterable[int]) -> str:
    return f"array({', '.join(map(str, numbers))})"


def _names(names: Iterable[str]) -> str:
    return f"CAST(array({', '.join(map(literal, names))}) AS array<string>)"
