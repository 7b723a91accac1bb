"""The text by which an event says that it leaves a large value as it was, where the event's own header tells it.

What forms that text takes by the column's type: spark.silver.unavailable.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import functions as sf

from spark.delta.identifiers import literal
from spark.kinds.record_marks import UNCHANGED_HEADER


def header_forms() -> Expression:
    """Every leaf that means "unchanged" in this event (array<string>); null where its header tells none.

    As SQL: Spark Connect's messages nest 100 levels at most, and the fold of a history comes near.
    """
    text, digits = "CAST(h.value AS STRING)", "md5(h.value)"
    # Version 3, and the variant of RFC 4122.
    variant = f"translate(substr({digits}, 17, 1), '0123456789abcdef', '89ab89ab89ab89ab')"
    named = (
        f"substr({digits}, 1, 8), '-', substr({digits}, 9, 4), '-3', substr({digits}, 14, 3), '-', "
        f"{variant}, substr({digits}, 18, 3), '-', substr({digits}, 21, 12)"
    )
    numbers = f"transform(split({text}, ''), letter -> CAST(ascii(letter) AS STRING))"
    shapes = (
        text,
        "base64(h.value)",
        f"""concat('["', {text}, '"]')""",
        """concat('["', base64(h.value), '"]')""",
        f"""concat('["', {named}, '"]')""",
        f"concat('[', array_join({numbers}, ','), ']')",
        f"""concat('{{"', {text}, '":"', {text}, '"}}')""",
    )
    told = f"filter(headers, h -> h.key = {literal(UNCHANGED_HEADER)})"
    return sf.expr(f"try_element_at(transform({told}, h -> array({', '.join(shapes)})), -1)")
