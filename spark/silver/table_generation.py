"""A table that was dropped and made again at the source: the same name, another table.

An event names its table only by name, and rows of the old table get no deletes. Two kinds of generations tell them apart:

- PostgreSQL decodes no DDL; the catalogue tells, by the table's number there (pg_class.oid). Where the policy is `evolve`, old
  rows go when the new table is read whole: a full snapshot holds everything up to its place, and whatever lies below that is of
  the old table or in the snapshot. A table made anew must be read whole anyway: what was written before it was published is
  nowhere in the log;
  Of a partitioned table the number is followed by those of its partitions and of their files. What takes rows away with a
  partition (DROP, DETACH, a TRUNCATE of it alone) is in no event either, and is read again in the same way;
- MariaDB's log tells, and the generation is the place of the last DROP: with `evolve`, what lies below it goes at once.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.errors import TableStopError, quantity
from spark.events.positions import epoch_prefix, snapshot_of
from spark.silver.column_ledger import ColumnChange, ColumnLedger, place_of
from spark.silver.schema_difference import EVOLVE, HALT, IGNORE, SchemaChangePolicy
from spark.specs import SilverSpec

KIND, PARTITION = "drop_table", "drop_partition"


def renew_generation(ledger: ColumnLedger, spec: SilverSpec, *, after: str) -> tuple[ColumnLedger, list[ColumnChange]]:
    """The ledger with the table's generation, and what there is to tell of it. `after`: the highest position folded.

    Raises:
        TableStopError: when it is another one and the policy says halt.
    """
    if not spec.generation or ledger.generation == spec.generation:
        return ledger, []
    if not ledger.generation:
        return replace(ledger, generation=spec.generation), []
    (table, _, before), (same, _, now) = ledger.generation.partition(":"), spec.generation.partition(":")
    if table == same:
        # Partitions (`oid/file`) that are gone, or have another file by now.
        lost = sorted({*before.split(",")} - {*now.split(","), ""})
        return _less_partitions(ledger, spec, lost, after=after)
    choice = SchemaChangePolicy.of(spec.schema_changes).drop_table
    if choice == HALT:
        raise TableStopError(
            f"table {spec.table}: it was dropped and made again at the source (number {ledger.generation} there, now "
            f"{spec.generation}), and schema_changes.drop_table is halt; choose another policy for the table"
        )
    # Numbers of the old table's columns say nothing about the new one's.
    columns = tuple(replace(c, number=None) if c.number is not None and c.number > 0 else c for c in ledger.columns)
    renewed = (place_of(spec.generation, after) or after) if choice == EVOLVE else ledger.renewed
    renewed_ledger = replace(ledger, columns=columns, generation=spec.generation, renewed=renewed)
    gone = "are gone" if place_of(spec.generation, after) else "go with the next full snapshot"
    done = f"rows from before {gone if choice == EVOLVE else 'are kept'}"
    change = ColumnChange(KIND, spec.table, ledger.generation, spec.generation, done)
    return renewed_ledger, [] if choice == IGNORE else [change]


def _less_partitions(
    ledger: ColumnLedger, spec: SilverSpec, lost: list[str], *, after: str
) -> tuple[ColumnLedger, list[ColumnChange]]:
    choice, now = SchemaChangePolicy.of(spec.schema_changes).drop_table, replace(ledger, generation=spec.generation)
    if not lost or choice == IGNORE:
        return now, []
    if choice == HALT:
        raise TableStopError(
            f"table {spec.table}: {quantity(len(lost), 'partition')} of it dropped, detached, truncated or rewritten, which no "
            "event tells of, and schema_changes.drop_table is halt; choose another policy for the table"
        )
    done = "go with the next full snapshot" if choice == EVOLVE else "are kept"
    change = ColumnChange(
        PARTITION, spec.table, quantity(len(lost), "partition"), "gone, or of another file", f"rows from before {done}"
    )
    return replace(now, renewed=after) if choice == EVOLVE else now, [change]


def at_birth(spec: SilverSpec) -> SilverSpec:
    """The spec of a table that does not exist yet, made from all of bronze: where the log tells of a DROP, the old rows go.

    Of a DROP in a higher epoch it is not known which; the epoch's begin has taken away what was below that.
    """
    drop = place_of(spec.generation, epoch_prefix(0))
    evolves = drop is not None and SchemaChangePolicy.of(spec.schema_changes).drop_table == EVOLVE
    return replace(spec, renewed=drop) if evolves and drop is not None else spec


def drops(spec: SilverSpec, *, after: str = "") -> list[str]:
    """The places above `after` at which the log tells of a DROP that the table obeys, lowest first."""
    if SchemaChangePolicy.of(spec.schema_changes).drop_table != EVOLVE:
        return []
    places = (place_of(at, spec.renewed or epoch_prefix(0)) for at in spec.drops)
    return [position for position in places if position is not None and after < position <= (spec.renewed or position)]


def first_snapshots(events: DataFrame, spec: SilverSpec, ledger: ColumnLedger) -> list[str]:
    """Where the catalogue alone tells of another table of this name: the full snapshot that came first after each.

    `events` are all that bronze has of the table.
    """
    if SchemaChangePolicy.of(spec.schema_changes).drop_table != EVOLVE:
        return []
    snapshots = []
    for renewed in ledger.renewals():
        if place_of(ledger.generation, renewed):
            continue
        whole = (sf.col("op") == "r") & ~sf.col("snapshot").eqNullSafe("incremental") & (sf.col("position") > renewed)
        begin = events.where(whole).agg(sf.min(snapshot_of(sf.col("position")))).first()
        snapshots += [begin[0]] if begin is not None and begin[0] else []
    return snapshots


def is_obeyed(spec: SilverSpec, truncated: str | None) -> bool:
    """Whether the rows of the tables before this one are gone already."""
    if not spec.renewed or (truncated is not None and truncated > spec.renewed):
        return True
    return bool(place_of(spec.generation, spec.renewed)) and truncated == spec.renewed


def generation_start(events: DataFrame, spec: SilverSpec, truncated: str | None) -> str | None:
    """Where the new table begins; None while there is nothing new. Where the log does not tell, that is known once its full
    snapshot is among the events (bronze rows)."""
    if is_obeyed(spec, truncated):
        return None
    if place_of(spec.generation, spec.renewed):
        return spec.renewed
    whole = (sf.col("op") == "r") & ~sf.col("snapshot").eqNullSafe("incremental") & (sf.col("position") > spec.renewed)
    row = events.where(whole).agg(sf.max(snapshot_of(sf.col("position")))).first()
    return None if row is None else row[0]
