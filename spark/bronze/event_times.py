"""When an event happened, as a declared field of its record says it, instead of when Kafka was given the record.

A field is `form:path` (TopicRange.event_time): `iso` texts, or a number of `seconds`, `milliseconds` or `microseconds` since
1970; the path goes down into objects by dots. A record without it, or with something else there, keeps Kafka's time.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as sf

from spark.errors import SpecError
from spark.specs import TopicRange

_MICROS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}
FORMS = ("iso", *_MICROS)
_FIRST, _LAST = "0001-01-01 00:00:00", "9999-12-31 23:59:59"


def event_times(topics: Sequence[TopicRange], told: Column) -> Column:
    """The time of each record of these topics; `told` is what its envelope says."""
    answer = told
    for topic in topics:
        if topic.event_time:
            answer = sf.when(sf.col("topic") == topic.topic, sf.coalesce(_read(topic.event_time), told)).otherwise(answer)
    return answer


def _read(declared: str) -> Column:
    form, _, path = declared.partition(":")
    if form not in FORMS or not path:
        raise SpecError(f"event_time {declared!r} is not form:path with a form of {', '.join(FORMS)}")
    text = sf.get_json_object(sf.col("value").cast("string"), f"$.{path}")
    moment = text.try_cast("timestamp") if form == "iso" else _of_number(text, _MICROS[form])
    # Beyond these years a timestamp cannot be read by Python, nor be written into a file's bounds.
    return sf.when(moment.between(sf.lit(_FIRST).cast("timestamp"), sf.lit(_LAST).cast("timestamp")), moment)


def _of_number(text: Column, micros: int) -> Column:
    """No number overflows: one of more digits than fit is null."""
    number = sf.floor(text.try_cast("decimal(24,6)") * sf.lit(micros)).try_cast("bigint")
    return sf.timestamp_micros(number)
