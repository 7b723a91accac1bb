"""Quoting in SQL, Spark's and the databases': any identifier of a source must survive, and none may break out."""

from __future__ import annotations

from collections.abc import Iterable

from spark.errors import TableStopError

NEEDS_COLUMN_MAPPING = frozenset(" ,;{}()\n\t=")
"""Parquet names that Delta refuses without column mapping."""


def quote(*parts: str, sign: str = "`") -> str:
    """`` `schema`.`table` `` for Spark, MariaDB and MySQL, whatever is in the names; in brackets for a `sign` of `[`."""
    closing = "]" if sign == "[" else sign
    return ".".join(f"{sign}{name.replace(closing, closing * 2)}{closing}" for name in parts)


def double_quote(*parts: str) -> str:
    """`"schema"."table"`, as standard SQL has it."""
    return quote(*parts, sign='"')


def table_at(path: str) -> str:
    """The Delta table at a path, as a SQL relation."""
    return f"delta.{quote(path)}"


def text_literal(text: str) -> str:
    """A text in standard SQL, where a backslash is one."""
    return "'" + text.replace("'", "''") + "'"


def literal(text: str) -> str:
    """A text in Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def refuse_case_twins(names: Iterable[str], *, table: str) -> None:
    """Spark resolves columns without regard to case: two names that differ by case only cannot be kept apart."""
    seen: dict[str, str] = {}
    for name in names:
        twin = seen.setdefault(name.lower(), name)
        if twin != name:
            raise TableStopError(
                f"table {table}: columns {twin!r} and {name!r} differ only by case, which Spark cannot tell apart; "
                "exclude one of them (except_column_list) or rename it in the source"
            )
