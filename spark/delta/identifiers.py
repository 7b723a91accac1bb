"""Quoting for Spark SQL and Delta: any identifier of a source database must survive, and none may break out."""

from __future__ import annotations

from collections.abc import Iterable

from spark.errors import SchemaMismatchError

NEEDS_COLUMN_MAPPING = frozenset(" ,;{}()\n\t=")
"""Parquet names that Delta refuses without column mapping."""


def quote(name: str) -> str:
    """A column as one part, dots and backticks in it included."""
    return "`" + name.replace("`", "``") + "`"


def table_at(path: str) -> str:
    """The Delta table at a path, as a SQL relation."""
    return f"delta.{quote(path)}"


def literal(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def refuse_case_twins(names: Iterable[str], *, table: str) -> None:
    """Spark resolves columns without regard to case: two names that differ by case only cannot be kept apart."""
    seen: dict[str, str] = {}
    for name in names:
        twin = seen.setdefault(name.lower(), name)
        if twin != name:
            raise SchemaMismatchError(
                f"table {table}: columns {twin!r} and {name!r} differ only by case, which Spark cannot tell apart; "
                "exclude one of them (except_column_list) or rename it in the source"
            )
