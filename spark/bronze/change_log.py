"""A table's rows in its source's change log at one fixed version: all of them, or what silver has not folded, by Spark
or (the newest) as Arrow.

What is new is told by offsets per topic and partition and by epoch; the lowest Kafka timestamp of the commits since
only lets Delta skip old files. Whoever needs all rows gets all of them, also those that the log has given to the
backup, or an error before anything is written. The Arrow reader follows the files that bronze's commits have added; a
log that lacks a version, or lost rows meanwhile, is left to Spark (LeftToSparkError).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.errors import BronzeExpiredError, LeftToSparkError, quantity
from spark.events.arrow_records import bronze_schema, keep_rows, leave_first
from spark.events.record_readers import connector, envelope
from spark.specs import SilverSpec
from spark.table.commit_metadata import Committed, Folded, fold
from spark.table.delta_table import table_of
from spark.table.needed_versions import KIND, Floor, floors_of
from spark.table.spark_plans import any_of
from spark.table.table_folder import LakeFolder, open_folder


def rows_in_log(session: SparkSession, spec: SilverSpec, version: int) -> DataFrame:
    """What the log holds of the table at a version."""
    bronze = session.read.format("delta").option("versionAsOf", version).load(spec.bronze_path)
    return bronze.where(sf.col("table") == spec.table)


def all_floors(bronze_path: str) -> dict[str, Floor]:
    """What is gone of a change log by now, by topic."""
    return floors_of(table_of(bronze_path).properties())


def table_floors(spec: SilverSpec) -> dict[str, Floor]:
    """What is gone of the table by now, by topic."""
    return {topic: floor for topic, floor in all_floors(spec.bronze_path).items() if floor.table == spec.table}


def highest_gone(spec: SilverSpec) -> str | None:
    """The highest position of the table that is gone; None where nothing is."""
    return max((floor.highest for floor in table_floors(spec).values()), default=None)


def all_rows(session: SparkSession, spec: SilverSpec, version: int) -> DataFrame:
    """Every row of the table, at a version that is not older than what is gone.

    What is gone is brought back from the backup beside the lake (cdc_assets.recovery.past_records), to where the spec's
    `past` says; it counts only if it has each record. Whoever needs all rows gets all of them, or the error before
    anything is written.

    Raises:
        BronzeExpiredError: some are gone, and not all of them have been brought back.
    """
    floors, rows = table_floors(spec), rows_in_log(session, spec, version)
    if not floors:
        return rows
    below = below_floors(floors)
    # An older version may still hold some of what was brought back.
    return rows.where(~below).unionByName(_past(session, spec, floors, rows, below))


def rows_since(session: SparkSession, spec: SilverSpec, version: int, before: Folded) -> DataFrame:
    """Rows among which is everything that comes after what was folded.

    Raises:
        BronzeExpiredError: some of it is gone.
    """
    floors = table_floors(spec)
    if all(is_within(floor, before, topic) for topic, floor in floors.items()):
        return rows_in_log(session, spec, version)
    return all_rows(session, spec, version)


def count_all(session: SparkSession, spec: SilverSpec, version: int) -> int:
    """Rows that the log holds of the table, and those that were proven to be in the backup when they went."""
    floors, rows = table_floors(spec), rows_in_log(session, spec, version)
    remaining = rows.where(~below_floors(floors)).count() if floors else rows.count()
    return remaining + sum(floor.records for floor in floors.values())


def is_within(floor: Floor, before: Folded, topic: str) -> bool:
    """Whether all that is gone of a topic has been folded."""
    folded = before.topics.get(topic)
    return folded is not None and floor.is_within(folded.epoch, folded.positions)


def below_floors(floors: Mapping[str, Floor]) -> Expression:
    """Whether a row of bronze is among those that are gone."""
    below = sf.lit(False)
    for topic, floor in floors.items():
        ends = [x for partition, end in floor.positions.items() for x in (sf.lit(partition), sf.lit(end))]
        end = sf.create_map(*ends)[sf.col("partition")] if ends else sf.lit(0)
        within = (sf.col("epoch") == floor.epoch) & (sf.col("offset") < end)
        below = below | ((sf.col("topic") == topic) & ((sf.col("epoch") < floor.epoch) | within))
    return sf.coalesce(below, sf.lit(False))


def _past(session: SparkSession, spec: SilverSpec, floors: Mapping[str, Floor], like: DataFrame, below: Expression) -> DataFrame:
    begins = _begins(spec)
    if any(topic not in begins for topic in floors):
        expired = sum(floor.records for floor in floors.values())
        raise BronzeExpiredError(spec.source, spec.table, _sentence(spec, expired, "are not brought back"))
    # Of epochs that the backup does not keep (backup.keep) nothing comes back, and nothing is folded.
    expired = sum(floor.records_from(begins[topic]) for topic, floor in floors.items())
    past = session.read.format("delta").load(spec.past).where(sf.col("table") == spec.table).where(below)
    if (restored := past.count()) != expired:
        raise BronzeExpiredError(
            spec.source, spec.table, _sentence(spec, expired, f"are gone, and {spec.past} holds {restored} of them")
        )
    return past.select(*like.columns)


def _begins(spec: SilverSpec) -> dict[str, int]:
    """The first epoch of which something was to come back, by topic; empty where nothing was brought back."""
    states = table_of(spec.past).fold(fold).of_table(spec.table) if spec.past else {}
    return {
        topic: min([state.epoch, *(past.epoch for past in (*state.before, *state.earlier))]) for topic, state in states.items()
    }


def _sentence(spec: SilverSpec, records: int, what: str) -> str:
    return (
        f"table {spec.table}: all of its events are asked for, and the first {quantity(records, 'record')} of {spec.bronze_path} "
        f"{what}; nothing is changed. Bring them back from the backup, and run it again: "
        f"cdc restore {spec.source} {spec.table} --past"
    )


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
    """What of it silver has not folded yet.

    What is new is told by offsets (per topic and partition, above what silver has folded) and by epoch (of a higher
    one, everything). The lowest Kafka timestamp of the commits since is added where known: it says nothing new, but
    lets Delta skip old files, which offsets of many tables in one file cannot.
    """
    rows = _row_events(rows_since(session, spec, committed.version, before), spec)
    conditions = [_beyond(topic, committed, before) for topic in committed.of_table(spec.table)]
    rows = rows.where(any_of(conditions))
    oldest = _oldest_timestamp(spec, committed, before)
    return rows if oldest is None else rows.where(sf.col("timestamp") >= sf.timestamp_micros(sf.lit(oldest)))


def fold_at_last_run(spec: SilverSpec, before: Folded) -> Committed:
    """What bronze had committed when silver last folded; the newest where nothing of the table has come since, because of an
    idle table's last fold the log and its files may be gone (spark.upkeep.log_expiry)."""
    committed = table_of(spec.bronze_path).fold(fold)
    if is_all_folded(committed, before, spec.table):
        return committed
    return table_of(spec.bronze_path).fold(fold, up_to=before.bronze_version)


def is_all_folded(committed: Committed, before: Folded, table: str) -> bool:
    """Whether nothing of the table has come since."""
    now, then = committed.of_table(table), before.topics
    return now.keys() == then.keys() and all((s.epoch, s.positions) == (then[t].epoch, then[t].positions) for t, s in now.items())


def by_partition(values: Mapping[str, Mapping[int, str | int]]) -> Expression:
    """A value by the row's topic and partition, null where there is none.

    One flat map: conditions joined by OR would nest as deep as there are partitions, more than Spark Connect carries.
    """
    pairs = [x for topic, by_number in values.items() for p, value in by_number.items() for x in (f"{topic}/{p}", value)]
    if not pairs:
        return sf.lit(None)
    return sf.create_map(*map(sf.lit, pairs))[sf.concat_ws("/", "topic", "partition")]


def _beyond(topic: str, committed: Committed, before: Folded) -> Expression:
    here = sf.col("topic") == topic
    folded, state = before.topics.get(topic), committed.topics[topic]
    if folded is None:
        return here
    beyond = sf.col("offset") >= sf.coalesce(by_partition({topic: folded.positions}), sf.lit(0))
    if state.epoch == folded.epoch:
        # The lowest of them is something that file statistics can be compared with.
        lowest = min((folded.positions.get(p, 0) for p in state.positions), default=0)
        return here & beyond & (sf.col("offset") >= lowest)
    # Offsets start again in a higher epoch.
    epoch = sf.col("epoch")
    return here & ((epoch > folded.epoch) | ((epoch == folded.epoch) & beyond))


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


COLUMNS = ("table", "topic", "partition", "offset", "headers", "key", "value", "op", "position", "tx_id", "source_ts")
MOST_VERSIONS = 500


class BronzeTail:
    """The records of `tables` in the versions above `after`, up to and with `version`.

    The log says which files these are
    (https://github.com/delta-io/delta/blob/master/PROTOCOL.md#add-file-and-remove-file), so nothing else of bronze is
    looked at. A log that lacks one of the versions, or in which rows were taken out meanwhile, is left to Spark.
    """

    def __init__(self, path: str, tables: Sequence[str], *, after: int, version: int) -> None:
        self._path, self._tables, self._after, self._version = path, tables, after, version

    def of_table(self, table: str) -> pa.Table:
        """The table's records, in COLUMNS.

        Raises:
            LeftToSparkError: the log does not say it all.
        """
        return keep_rows(self._records, pc.equal(self._records["table"], table))

    @cached_property
    def _records(self) -> pa.Table:
        if self._version - self._after > MOST_VERSIONS:
            raise LeftToSparkError(f"{quantity(self._version - self._after, 'version')} of bronze to be read")
        try:
            commits = table_of(self._path).changes(self._after, self._version)
        except OSError as error:
            raise LeftToSparkError(f"bronze's log does not reach back to version {self._after + 1}: {error}") from error
        # Of maintenance: what went was folded long ago, and what such a commit adds was there before.
        actions = [action for commit in commits if not _is_maintenance(commit) for action in commit]
        leave_first({"rows were taken out of bronze": any(a["remove"].get("dataChange", True) for a in actions if "remove" in a)})
        files = [unquote(a["add"]["path"]) for a in actions if "add" in a and a["add"].get("dataChange", True)]
        return _read_files(open_folder(self._path), files, self._tables)


def read_all_records(path: str, table: str, version: int) -> pa.Table:
    """Every record of the table at a version, in COLUMNS.

    Raises:
        LeftToSparkError: some have been given to the backup, or the log has a form that is not read here.
    """
    live = table_of(path).snapshot(version)
    floors = floors_of(live.metadata.get("configuration"))
    reasons = {
        "records of the table are with the backup": any(floor.table == table for floor in floors.values()),
        "bronze has deletion vectors": any(file.get("deletionVector") for file in live.files.values()),
    }
    leave_first(reasons)
    return _read_files(open_folder(path), [unquote(file) for file in live.files], [table])


def _read_files(folder: LakeFolder, files: Sequence[str], tables: Sequence[str]) -> pa.Table:
    if not files:
        return bronze_schema(COLUMNS).empty_table()
    try:
        dataset = ds.dataset(list(files), format="parquet", filesystem=folder.filesystem)
        return dataset.to_table(columns=list(COLUMNS), filter=ds.field("table").isin(list(tables)))
    except (OSError, pa.ArrowInvalid) as error:
        raise LeftToSparkError(f"a file of bronze is not to be read here: {error}") from error


def _is_maintenance(actions: Sequence[dict[str, Any]]) -> bool:
    """Whether the commit says of itself that it says nothing of what the table holds."""
    for action in actions:
        metadata = str(action.get("commitInfo", {}).get("userMetadata") or "")
        if metadata.startswith("{"):
            return bool(json.loads(metadata).get("kind") == KIND)
    return False
