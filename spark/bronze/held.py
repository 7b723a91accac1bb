"""A table's rows in its source's change log: those that the log holds, and with them those that it has given to the backup.

Whoever needs all of them gets all of them, or an error before anything is written. What is gone is brought back from the backup
beside the lake (cdc_assets.restore.past_records), to where the spec's `past` says; it counts only if it has each record.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.delta.commits import Folded, fold
from spark.delta.floor import FLOOR, Floor, parse_floors
from spark.delta.log import fold_history
from spark.delta.table_properties import read_property
from spark.errors import BronzeExpiredError, quantity
from spark.positions.layout import EPOCH_WIDTH
from spark.specs import SilverSpec


def row_epoch(rows: DataFrame) -> Expression:
    """The epoch of each row of bronze: its own word, else that of its position; null where it has neither, as a tombstone of a
    log that was begun without the column.
    """
    of_position = sf.conv(sf.substring(sf.col("position"), 1, EPOCH_WIDTH), 16, 10).cast("int")
    return sf.coalesce(sf.col("epoch"), of_position) if "epoch" in rows.columns else of_position


def rows_in_log(session: SparkSession, spec: SilverSpec, version: int) -> DataFrame:
    """What the log holds of the table at a version."""
    bronze = session.read.format("delta").option("versionAsOf", version).load(spec.bronze_path)
    return bronze.where(sf.col("table") == spec.table)


def all_floors(session: SparkSession, bronze_path: str) -> dict[str, Floor]:
    """What is gone of a change log by now, by topic."""
    return parse_floors(read_property(session, bronze_path, FLOOR))


def table_floors(session: SparkSession, spec: SilverSpec) -> dict[str, Floor]:
    """What is gone of the table by now, by topic."""
    return {topic: floor for topic, floor in all_floors(session, spec.bronze_path).items() if floor.table == spec.table}


def highest_gone(session: SparkSession, spec: SilverSpec) -> str | None:
    """The highest position of the table that is gone; None where nothing is, or nobody knows."""
    highest = [floor.highest for floor in table_floors(session, spec).values()]
    return max(highest) if highest and all(highest) else None


def all_rows(session: SparkSession, spec: SilverSpec, version: int) -> DataFrame:
    """Every row of the table, at a version that is not older than what is gone.

    Raises:
        BronzeExpiredError: some are gone, and not all of them have been brought back.
    """
    floors, rows = table_floors(session, spec), rows_in_log(session, spec, version)
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
    floors = table_floors(session, spec)
    if all(is_within(floor, before, topic) for topic, floor in floors.items()):
        return rows_in_log(session, spec, version)
    return all_rows(session, spec, version)


def count_all(session: SparkSession, spec: SilverSpec, version: int) -> int:
    """Rows that the log holds of the table, and those that were proven to be in the backup when they went."""
    floors, rows = table_floors(session, spec), rows_in_log(session, spec, version)
    held = rows.where(~below_floors(floors)).count() if floors else rows.count()
    return held + sum(floor.records for floor in floors.values())


def is_within(floor: Floor, before: Folded, topic: str) -> bool:
    """Whether all that is gone of a topic has been folded."""
    known = before.topics.get(topic)
    return known is not None and floor.is_within(known.epoch, known.positions)


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
    begins = _begins(session, spec)
    if any(topic not in begins for topic in floors):
        wanted = sum(floor.records for floor in floors.values())
        raise BronzeExpiredError(spec.source, spec.table, _sentence(spec, wanted, "are not brought back"))
    # Of epochs that the backup does not keep (backup.keep) nothing comes back, and nothing is folded.
    wanted = sum(floor.records_from(begins[topic]) for topic, floor in floors.items())
    past = session.read.format("delta").load(spec.past).where(sf.col("table") == spec.table).where(below)
    if (held := past.count()) != wanted:
        raise BronzeExpiredError(
            spec.source, spec.table, _sentence(spec, wanted, f"are gone, and {spec.past} holds {held} of them")
        )
    return past.select(*like.columns)


def _begins(session: SparkSession, spec: SilverSpec) -> dict[str, int]:
    """The first epoch of which something was to come back, by topic; empty where nothing was brought back."""
    states = fold_history(session, spec.past, fold).of_table(spec.table) if spec.past else {}
    return {
        topic: min([state.epoch, *(past.epoch for past in (*state.before, *state.earlier))]) for topic, state in states.items()
    }


def _sentence(spec: SilverSpec, wanted: int, what: str) -> str:
    return (
        f"table {spec.table}: all of its events are asked for, and the first {quantity(wanted, 'record')} of {spec.bronze_path} "
        f"{what}; nothing is changed. Bring them back from the backup, and run it again: "
        f"cdc restore {spec.source} {spec.table} --past"
    )
