"""Dates and times as people and applications write them, in the numbers that the type stage reads.

Debezium sends days and microseconds, and that is what column types expect. Applications, Replicate and MongoDB write
`2024-02-29` and `2024-02-29 12:00:00.5`. A text with more than microseconds, with a zone where the type has none, or of
any other form stays as it is: the type stage then says that it does not fit, rather than to cut something off.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.specs import Column
from spark.types.rule import SourceType

_DAY = r"\d{4}-\d{2}-\d{2}"
_TIME = r"\d{2}:\d{2}(:\d{2}(\.\d{1,6}0*)?)?"


def in_numbers(column: Column, text: Expression) -> Expression:
    """The text, or of a written date or time its number."""
    source = SourceType.parse(column.source_type)
    if source is None or source.array:
        return text
    if source.name == "date":
        return sf.when(text.rlike(f"^{_DAY}$"), sf.unix_date(text.try_cast("date")).cast("string")).otherwise(text)
    if source.name == "timestamp without time zone":
        return sf.when(text.rlike(f"^{_DAY}[T ]{_TIME}Z?$"), _micros(text)).otherwise(text)
    if source.name == "time without time zone":
        return sf.when(text.rlike(f"^{_TIME}$"), _micros(sf.concat(sf.lit("1970-01-01 "), text))).otherwise(text)
    return text


def _micros(text: Expression) -> Expression:
    return sf.unix_micros(text.try_cast("timestamp")).cast("string")
