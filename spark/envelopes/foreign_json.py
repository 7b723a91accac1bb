"""Records in JSON that others write: nothing of them becomes another value in silence.

What our connectors write is UTF-8, one value, without half characters, and its numbers are doubles. Others write what they
like, and Spark's parser takes it: bytes that are no UTF-8 and halves of a surrogate pair become U+FFFD or `?`, so that two
keys are one, what follows the value is dropped, and a long number is rounded.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.types.json_numbers import MARK, mark_long_numbers

# No escape of half a pair (RFC 8259, 8.2), and none of MARK.
_WHOLE_CHARACTERS = (
    r"(?s)^(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F]|[fF]{4})[0-9a-fA-F]{4}"
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+$"
)
_QUOTED_TWICE = r"""(?s)^(?:[^"']++|"(?:[^"\\]++|\\.)*+")*+$"""


def read_foreign(events: DataFrame) -> DataFrame:
    """Bronze's events with `foreign_fault`, why a value is not to be read (or null), and numbers marked in key and value.

    A key that is not to be read is null.
    """
    key, value = sf.col("key"), sf.col("value")
    return events.withColumns(
        {
            "foreign_fault": sf.when(value.isNotNull(), fault(value.cast("string"))),
            "value": mark_long_numbers(value.cast("string")).cast("binary"),
            "key": sf.when(fault(key.cast("string")).isNull(), mark_long_numbers(key.cast("string")).cast("binary")),
        }
    )


def fault(text: Expression) -> Expression:
    """Why a text is not to be read as JSON; null where it is one value as the rules have it, and nothing else."""
    no_utf8 = ~sf.is_valid_utf8(text)
    halves = sf.contains(text, sf.lit("\\u")) & ~text.rlike(_WHOLE_CHARACTERS)
    # Spark's parser takes texts between apostrophes too.
    odd_quotes = sf.contains(text, sf.lit("'")) & ~text.rlike(_QUOTED_TWICE)
    return (
        sf.when(no_utf8, "its JSON is no UTF-8")
        .when(halves | sf.contains(text, sf.lit(MARK)), "its JSON has half a surrogate pair, or U+FFFF")
        .when(odd_quotes | ~_is_one_value(text), "its JSON is not one value with nothing behind it")
    )


def _is_one_value(text: Expression) -> Expression:
    """As the first of two in an array: what comes second is then our own, and no text holds its own digest."""
    digest = sf.md5(text)
    second = sf.get_json_object(sf.concat(sf.lit("["), text, sf.lit(',"'), digest, sf.lit('"]')), "$[1]")
    return second.eqNullSafe(digest)
