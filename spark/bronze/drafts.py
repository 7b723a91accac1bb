"""The records of a batch with what their envelopes say of them, before the positions are final.

One read may hold topics of several envelopes and kinds of sources: each record is parsed once, by its topic's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from operator import attrgetter

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from spark.bronze.counts import position
from spark.bronze.event_times import event_times
from spark.delta.topic_commits import SchemaIds, merge_ids
from spark.envelopes.envelope import Narrow, kind
from spark.envelopes.known_envelopes import envelope
from spark.kinds.record_marks import ANCHOR_HEADER
from spark.positions import postgresql
from spark.positions.source_kinds import connector
from spark.specs import TopicRange


def drafts(records: DataFrame, topics: Sequence[TopicRange], known: Mapping[str, SchemaIds | None] | None = None) -> DataFrame:
    """One row per record: bronze's columns, and what the positions still depend on.

    `known` are the schemas that the records of a topic may have been written with; without, they are looked for first.
    """
    records, said = _parse(records, topics, known or {})

    def of(path: str, missing: str = "string") -> Column:
        values = [(names, attrgetter(path)(narrow)) for names, narrow in said]
        given = [(names, value) for names, value in values if value is not None]
        if len(given) == len(values) == 1:
            return given[0][1]
        answer = sf.lit(None).cast(missing)
        for names, value in given:
            answer = sf.when(_among(names), value).otherwise(answer)
        return answer

    op = of("op")
    found = records.select(
        _by_topic({t.topic: t.table for t in topics}).alias("table"),
        _by_topic({t.topic: t.epoch for t in topics}).alias("epoch"),
        *("topic", "partition", "offset", "timestamp", "headers", "key", "value"),
        op.alias("op"),
        kind(op, sf.col("value")).alias("kind"),
        sf.coalesce(sf.when(op == "r", _anchor()), of("place.last_commit", "bigint")).alias("last_commit"),
        of("place.lsn", "bigint").alias("lsn"),
        of("place.text").alias("place"),
        of("tx_id").alias("tx_id"),
        event_times(topics, of("source_ts", "timestamp")).alias("source_ts"),
        of("snapshot").alias("snapshot"),
    )
    # From columns, in a projection of its own: Spark works an expression anew at each place that names it (ADR 71).
    anchor = sf.coalesce("last_commit", "lsn")
    place = sf.coalesce(postgresql.place(anchor=anchor, op=sf.col("op"), lsn=sf.col("lsn")), sf.col("place"))
    return found.withColumn("position", position(place)).drop("place")


def _parse(
    records: DataFrame, topics: Sequence[TopicRange], known: Mapping[str, SchemaIds | None]
) -> tuple[DataFrame, list[tuple[list[str], Narrow]]]:
    """The records with a column for each form that they come in, and by the topics of a form what it says of a record."""
    forms: dict[tuple[str, str, str | None], list[str]] = {}
    for topic in topics:
        forms.setdefault((topic.envelope, topic.connector, topic.schema_registry), []).append(topic.topic)
    said: list[tuple[list[str], Narrow]] = []
    for number, ((form, source, registry), names) in enumerate(forms.items()):
        ids = merge_ids([known.get(name) for name in names])
        form_, source_ = envelope(form).prepare(records.where(_among(names)), registry, ids), connector(source)
        parsed = form_.parse(source_)
        records = records.withColumn(f"parsed_{number}", parsed if len(forms) == 1 else sf.when(_among(names), parsed))
        said.append((names, form_.narrow(sf.col(f"parsed_{number}"), source_)))
    return records, said


def _anchor() -> Column:
    """The commit behind which a row of a temporary connector stands, as its header says; null for all others.

    Such rows are read while the source's own connector streams on from that commit with their table in it: whatever it
    has streamed since is as new as the row or newer, and its own LSN would rank it above changes it does not contain.
    """
    named = sf.filter(sf.col("headers"), lambda header: header["key"] == ANCHOR_HEADER)
    return sf.get(named, sf.lit(0))["value"].cast("string").try_cast("bigint")


def _among(topics: Sequence[str]) -> Column:
    return sf.col("topic").isin(*topics)


def _by_topic(values: Mapping[str, object]) -> Column:
    return sf.create_map(*[sf.lit(x) for x in chain.from_iterable(values.items())])[sf.col("topic")]
