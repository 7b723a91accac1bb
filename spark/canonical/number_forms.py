"""Booleans and numbers."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.canonical.form import AS_TEXT, AS_WRITTEN, Form, plain


def bits(column: Expression) -> Expression:
    """The IEEE 754 bits as hexadecimal, most significant byte first.

    Spark shows a double by Java's text, which is not PostgreSQL's and, before Java 19, not the shortest. Avro's binary
    form of a number is its bits, least significant byte first; the byte before them says which of [value, null] it is.
    """
    from pyspark.sql.avro.functions import to_avro

    digits = sf.hex(to_avro(column))
    count = sf.length(digits) / 2
    octets = sf.transform(
        sf.sequence(sf.lit(0), sf.lit(7)),
        lambda i: sf.when(i < count, sf.substr(digits, sf.length(digits) - i * 2 - 1, sf.lit(2))),
    )
    return sf.when(column.isNotNull(), sf.array_join(octets, ""))


def _float(send: str, width: int, nan: str) -> Form:
    """NaN is one value: a processor's own has a sign (`'Infinity' - 'Infinity'`), and PostgreSQL shows and sends each as NaN."""

    def lake(column: Expression) -> Expression:
        return sf.when(sf.isnan(column), nan).otherwise(sf.left(bits(column), sf.lit(2 * width)))

    def sql(column: str) -> str:
        return f"CASE WHEN {column} = 'NaN' THEN '{nan}' ELSE upper(encode({send}({column}), 'hex')) END"

    return Form(sql, lake, in_key=one_zero(sql, lake, "0" * 2 * width))


def one_zero(sql: Callable[[str], str], lake: Callable[[Expression], Expression], zero: str) -> Form:
    """The same, but for -0, which is written as 0 is."""
    return Form(
        lambda c: f"CASE WHEN {c} = 0 THEN '{zero}' ELSE {sql(c)} END", lambda c: sf.when(c == 0, zero).otherwise(lake(c))
    )


BIT = Form(lambda c: f"({c} = B'1')::text", plain)
FORMS = {
    **dict.fromkeys(("smallint", "integer", "bigint", "bigint unsigned", "oid", "numeric"), AS_WRITTEN),
    "boolean": AS_TEXT,
    "real": _float("float4send", 4, "7FC00000"),
    "double precision": _float("float8send", 8, "7FF8000000000000"),
    "money": Form(lambda c: f"{c}::numeric::text", plain),
}
