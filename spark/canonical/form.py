"""A canonical form: one SQL expression of the source database and one of Spark that give the same text for equal values.

Rules that make a row's text unambiguous: a value's form is never empty, and NULL is empty; no form but that of a text
holds `;`, which ends every column; a text is preceded by its length in bytes (UTF-8).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf


@dataclass(frozen=True)
class Form:
    """`sql` takes a quoted column of PostgreSQL, `lake` the column of silver. NULL stays NULL in both.

    `parts` is the same as arguments of PostgreSQL's concat(), which writes values by their output functions and NULL as nothing:
    cheaper where that saves copies. `in_key` is the form in a key, of a type whose equal values may be written differently: 0 and
    -0 are one key to the source and to Spark, which shows one of them for both.
    """

    sql: Callable[[str], str]
    lake: Callable[[Expression], Expression]
    with_length: bool = False
    parts: Callable[[str], tuple[str, ...]] | None = None
    in_key: Form | None = None

    def arguments(self, column: str) -> tuple[str, ...]:
        """The arguments of concat() that write the column."""
        return (self.sql(column),) if self.parts is None else self.parts(column)

    def display(self, text: str | None) -> str | None:
        """The value for people."""
        return text.partition(":")[2] if text is not None and self.with_length else text


@dataclass(frozen=True)
class Incomparable:
    """A type without a form that both sides write the same, and why."""

    why: str


def plain(column: Expression) -> Expression:
    """Spark's own text of a value."""
    return column.cast("string")


def prefix_length(text: Expression) -> Expression:
    """A text preceded by its length in bytes."""
    return sf.concat(sf.octet_length(text).cast("string"), sf.lit(":"), text)


def prefix_length_sql(text: str) -> str:
    """The same in PostgreSQL, of an expression that is a text or NULL."""
    return f"octet_length({text})::text || ':' || {text}"


def is_there(value: str) -> str:
    """That a value is not NULL. Of a row type with a NULL field `IS NOT NULL` is false, and with NULLs alone `IS NULL` is true.

    https://www.postgresql.org/docs/18/functions-comparison.html
    """
    return f"{value} IS DISTINCT FROM NULL"


def output(column: str) -> str:
    """What the type's own output function writes; `::text` drops blanks of character(n) and writes inet with its mask."""
    return f"CASE WHEN {is_there(column)} THEN concat({column}) END"


def _text_parts(column: str) -> tuple[str, ...]:
    return f"octet_length({column}::text)", f"':' || {column}::text"


def _length_parts(column: str) -> tuple[str, ...]:
    return f"octet_length({column})", f"CASE WHEN {column} IS NOT NULL THEN ':' END", column


AS_TEXT = Form(lambda c: f"{c}::text", plain)
AS_WRITTEN = replace(AS_TEXT, parts=lambda c: (c,))
"""Of types whose `::text` is their output function."""
MEASURED = Form(lambda c: prefix_length_sql(f"({output(c)})"), prefix_length, with_length=True)
# octet_length and || give NULL for NULL by themselves, so the common types need no CASE.
MEASURED_TEXT = Form(lambda c: prefix_length_sql(f"{c}::text"), prefix_length, with_length=True, parts=_text_parts)
PADDED = replace(MEASURED, parts=_length_parts)
"""character(n): its length is that of what is written, blanks included."""
