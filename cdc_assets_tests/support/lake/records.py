"""Kafka records of any envelope as bronze's drafts and as silver's leaves, without a lake."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark.bronze.range_reader import SCHEMA
from spark.specs import KAFKA_SCHEMA, Column, SilverSpec, TopicRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)


@dataclass(frozen=True)
class Sent:
    """One record; texts and JSON values are encoded, bytes go as they are."""

    value: Any
    key: Any = None
    headers: Mapping[str, str] = None  # type: ignore[assignment]
    offset: int | None = None


def encoded(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode()


def kafka(session: SparkSession, topics: Mapping[str, Sequence[Sent]]) -> DataFrame:
    """The records of each topic, at offsets 0, 1, … where they do not say."""
    rows = [
        {
            "topic": topic,
            "partition": 0,
            "offset": number if sent.offset is None else sent.offset,
            "timestamp": NOW,
            "headers": [{"key": k, "value": v.encode()} for k, v in (sent.headers or {}).items()],
            "key": encoded(sent.key),
            "value": encoded(sent.value),
        }
        for topic, records in topics.items()
        for number, sent in enumerate(records)
    ]
    return session.createDataFrame(pa.Table.from_pylist(rows, schema=SCHEMA), KAFKA_SCHEMA)


def drafted(
    session: SparkSession,
    forms: Mapping[str, tuple[str, str]],
    topics: Mapping[str, Sequence[Sent]],
    registry: str | None = None,
) -> DataFrame:
    """What bronze makes of them; `forms` gives each topic's envelope and connector."""
    from spark.bronze.batch_records import drafts

    ranges = [TopicRange(t, t, "id", 0, {0: (0, 10_000)}, *form, schema_registry=registry) for t, form in forms.items()]
    return drafts(kafka(session, topics), ranges)


def leaves_of(
    session: SparkSession,
    form: tuple[str, str],
    columns: Sequence[Column],
    keys: Sequence[str],
    records: Sequence[Sent],
    registry: str | None = None,
) -> list[dict[str, Any]]:
    """Bronze's narrow columns, `unreadable`, `present` and the row as texts by column name, in order of offsets."""
    from spark.events.text_leaves import leaf, leaves

    more = {"envelope": form[0], "connector": form[1], "schema_registry": registry, "foreign": True}
    spec = SilverSpec("s", "t", "none", "none", tuple(columns), tuple(keys), **more)  # type: ignore[arg-type]
    events = drafted(session, {"t": form}, {"t": records}, registry)
    found = []
    for row in leaves(events, spec).orderBy("offset").collect():
        facts = row.asDict(recursive=True)
        facts["row"] = {c.name: facts.pop(leaf(i)) for i, c in enumerate(columns)}
        found.append(facts)
    return found
