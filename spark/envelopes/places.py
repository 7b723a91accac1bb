"""Which column a field of an event belongs to, where a name has belonged to more than one column.

An event names its fields, and a name says nothing once columns were exchanged, or one was dropped and added again: the event
may be of before or after that. But its fields stand in the order of the columns' numbers (pg_attribute.attnum), as
PostgreSQL's logical decoding and Debezium keep it. So the names in their order tell under which schema an event was written:

    known orders   id 1, a 2, b 3   and then   id 1, b 2, a 3
    fields of an event   id, tmp, b   =>   tmp is column 2, b is column 3

What the order does not tell: the last column dropped and added again, in the same place under the same name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, pairwise

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.delta.identifiers import literal
from spark.specs import Column, Order

_MOST_ORDERS, _MOST_STATES = 8, 32


def order_of(columns: Sequence[Column]) -> Order:
    """The names of a table's columns in the order of their numbers; empty where these are not known."""
    known = [(c.event_field, c.number) for c in columns if c.number is not None]
    return tuple(sorted(known, key=lambda each: each[1])) if len(known) == len(columns) else ()


def orders_with(orders: Sequence[Order], was: Order, now: Order) -> tuple[Order, ...]:
    """The known orders with one more, the newest last. Where the numbers before are not known, nothing before counts."""
    if not was or not now:
        return ()
    if was == now:
        return tuple(orders)
    kept = [order for order in dict.fromkeys((*orders, was)) if order != now]
    return (*kept, now)[-_MOST_ORDERS:]


def are_needed(orders: Sequence[Order]) -> bool:
    """Whether some name has belonged to two columns."""
    pairs = {pair for order in orders for pair in order}
    return len({name for name, _ in pairs}) < len(pairs)


def numbers_of(fields: str, orders: Sequence[Order]) -> Expression:
    """The numbers of the columns that an event's fields belong to; null where their order does not tell.

    `fields` is the SQL of an array of names. The answer is SQL too: Spark Connect's messages nest 100 levels at most.
    """
    cases = [(f"{fields} = {_names(name for name, _ in order)}", [number for _, number in order]) for order in reversed(orders)]
    every = _names(sorted({name for order in orders for name, _ in order}))
    for before, after in reversed([*pairwise(orders)]):
        cases += [(_fits(fields, state, (before, after), every), list(state)) for state in _states(before, after)]
    whens = " ".join(f"WHEN {condition} THEN array({', '.join(map(str, numbers))})" for condition, numbers in cases)
    return sf.expr(f"CASE {whens} END")


def _fits(fields: str, state: Sequence[int], orders: tuple[Order, Order], every: str) -> str:
    """Whether an event with these columns could have these fields: each by a name of its own, or by one that nobody knows."""
    as_many = f"size({fields}) = {len(state)}"
    if len({frozenset(number for _, number in order) for order in orders}) == 1:
        return as_many  # columns were only renamed, and their places are the same throughout
    own = [_names(name for order in orders for name, number in order if number == wanted) for wanted in state]
    fitting = f"array_contains(names, field) OR NOT array_contains({every}, field)"
    return f"{as_many} AND forall(zip_with({fields}, array({', '.join(own)}), (field, names) -> {fitting}), fits -> fits)"


def _states(before: Order, after: Order) -> Iterator[tuple[int, ...]]:
    """The sets of columns that the table may have had from one order to the next, the newest first.

    Columns come in the order of their numbers; they go in any order.
    """
    was, now = [number for _, number in before], [number for _, number in after]
    gone, new = sorted({*was} - {*now}), sorted({*now} - {*was})
    if 2 ** len(gone) * (len(new) + 1) > _MOST_STATES:
        yield from (tuple(now), tuple(was))
        return
    for come in range(len(new), -1, -1):
        for count in range(len(gone), -1, -1):
            for left in combinations(gone, count):
                yield tuple(sorted({*was, *new[:come]} - {*left}))


def _names(names: Iterable[str]) -> str:
    return f"array({', '.join(map(literal, names))})"
