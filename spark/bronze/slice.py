"""A table's slice of its source's change log, at one fixed version: all of it, or what silver has not folded.

What is new is told by offsets (per topic and partition, above what silver has folded) and by epoch (of a higher one,
everything). The lowest Kafka timestamp of the commits since is added where known: it says nothing new, but lets Delta
skip old files, which offsets of many tables in one file cannot.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.bronze.held import all_rows, row_epoch, rows_in_log, rows_since
from spark.delta.commits import Committed, Folded, fold
from spark.delta.conditions import any_of
from spark.delta.log import fold_history
from spark.envelopes.known_envelopes import envelope
from spark.positions.source_kinds import connector
from spark.specs import SilverSpec


def table_events(session: SparkSession, spec: SilverSpec, version: int) -> DataFrame:
    """Everything of the table, but messages that are no row events, and tombstones where the delete before them says it all.

    Raises:
        BronzeExpiredError: bronze has not all of it any more.
    """
    return _row_events(all_rows(session, spec, version), spec)


def events_from(session: SparkSession, spec: SilverSpec, version: int, lowest: str) -> DataFrame:
    """The same of what the log holds, from a position on: all that there is, where what is gone lies below it."""
    return _row_events(rows_in_log(session, spec, version).where(sf.col("position") >= lowest), spec)


def _row_events(rows: DataFrame, spec: SilverSpec) -> DataFrame:
    rows = rows.where(~sf.col("op").eqNullSafe("m"))
    if envelope(spec.envelope).tombstones_delete(connector(spec.connector)):
        return rows
    return rows.where(sf.col("value").isNotNull())


def new_events(session: SparkSession, spec: SilverSpec, committed: Committed, before: Folded) -> DataFrame:
    """What of it silver has not folded yet."""
    rows = _row_events(rows_since(session, spec, committed.version, before), spec)
    conditions = [_beyond(rows, topic, committed, before) for topic in committed.of_table(spec.table)]
    rows = rows.where(any_of(conditions))
    oldest = _oldest_timestamp(spec, committed, before)
    return rows if oldest is None else rows.where(sf.col("timestamp") >= sf.timestamp_micros(sf.lit(oldest)))


def fold_at_last_run(session: SparkSession, spec: SilverSpec, before: Folded) -> Committed:
    """What bronze had committed when silver last folded; the newest where nothing of the table has come since, because of an
    idle table's last fold the log and its files may be gone (spark.maintenance)."""
    committed = fold_history(session, spec.bronze_path, fold)
    if is_all_folded(committed, before, spec.table):
        return committed
    return fold_history(session, spec.bronze_path, fold, up_to=before.bronze_version)


def is_all_folded(committed: Committed, before: Folded, table: str) -> bool:
    """Whether nothing of the table has come since."""
    now, then = committed.of_table(table), before.topics
    return now.keys() == then.keys() and all((s.epoch, s.positions) == (then[t].epoch, then[t].positions) for t, s in now.items())


def by_partition(values: Mapping[str, Mapping[int, str | int]]) -> Expression:
    """A value by the row's topic and partition, null where there is none.

    One flat map: conditions joined by OR would nest as deep as there are partitions, more than Spark Connect carries.
    """
    pairs = [x for topic, known in values.items() for p, value in known.items() for x in (f"{topic}/{p}", value)]
    if not pairs:
        return sf.lit(None)
    return sf.create_map(*map(sf.lit, pairs))[sf.concat_ws("/", "topic", "partition")]


def _beyond(rows: DataFrame, topic: str, committed: Committed, before: Folded) -> Expression:
    here = sf.col("topic") == topic
    known, state = before.topics.get(topic), committed.topics[topic]
    if known is None:
        return here
    beyond = sf.col("offset") >= sf.coalesce(by_partition({topic: known.positions}), sf.lit(0))
    if state.epoch == known.epoch:
        # The lowest of them is something that file statistics can be compared with.
        lowest = min((known.positions.get(p, 0) for p in state.positions), default=0)
        return here & beyond & (sf.col("offset") >= lowest)
    # Offsets start again in a higher epoch; a record that does not say its own may belong to either and is looked at anew.
    epoch = row_epoch(rows)
    return here & ((epoch > known.epoch) | epoch.isNull() | ((epoch == known.epoch) & beyond))


def _oldest_timestamp(spec: SilverSpec, committed: Committed, before: Folded) -> int | None:
    """Lowest Kafka timestamp among the appends since silver's last fold; None when not all of them are known."""
    if committed.oldest_seen > before.bronze_version + 1 or committed.of_table(spec.table).keys() - before.topics.keys():
        return None  # of a topic that is new here all is wanted, also what no commit's share tells
    shares = [
        share
        for version, topics in committed.appends
        if version > before.bronze_version
        for share in topics.values()
        if share.table == spec.table and share.records
    ]
    if any(share.min_timestamp is None for share in shares):
        return None
    return min((share.min_timestamp for share in shares if share.min_timestamp is not None), default=None)
