"""What a statement of SQL found, whichever engine ran it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdc_assets.errors import LakeSqlError
from cdc_assets.lake_sql.lake_tables import LakeTable, near_names, unknown_names


@dataclass(frozen=True)
class Answer:
    """Rows by column, at most as many as were asked for; `more`: there are others. `hidden`: columns shown as hashes."""

    columns: Sequence[str]
    rows: Sequence[Mapping[str, Any]]
    more: bool
    hidden: Sequence[str]


def answer(columns: Sequence[str], rows: Sequence[Sequence[Any]], limit: int, hidden: Sequence[str]) -> Answer:
    """Of one row more than the limit, where there is one."""
    told = distinct_names(columns)
    found = [dict(zip(told, map(_printable, row), strict=True)) for row in rows[:limit]]
    return Answer(told, found, len(rows) > limit, hidden)


def distinct_names(columns: Sequence[str]) -> list[str]:
    """`a, a_2` for two columns that are both called `a`."""
    taken: list[str] = []
    for name in columns:
        own, number = name, 1
        while own in taken:
            number += 1
            own = f"{name}_{number}"
        taken.append(own)
    return taken


def _printable(value: Any) -> Any:
    return f"\\x{bytes(value).hex()}" if isinstance(value, (bytes, bytearray, memoryview)) else value


def hidden_columns(named: Sequence[LakeTable]) -> list[str]:
    """`silver.shop.orders.email`: what of these tables is sensitive."""
    return [f"{table.name}.{column}" for table in named for column in table.sensitive]


def refusal(statement: str, reason: str, tables: Sequence[LakeTable], *, missing: Sequence[str] = ()) -> LakeSqlError:
    """An engine's reason; where it does not know names (`missing`, and what looks like a table's), the tables near to them."""
    told = []
    for name in dict.fromkeys([*unknown_names(statement, tables), *missing]):
        near = near_names(name, tables)
        told.append(f"no table {name}" + (f"; near: {', '.join(near)}" if near else "") + "; cdc sql lists all")
    return LakeSqlError("; ".join(told) or reason)
