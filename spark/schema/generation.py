"""A table that was dropped and made again at the source: the same name, another table.

The log does not tell: PostgreSQL decodes no DDL, and an event names its table only by name. The catalogue does, by the table's
number there (pg_class.oid). Rows of the old table get no deletes, so where the policy is `evolve` they go when the new table is
read whole: a full snapshot holds everything up to its place, and whatever lies below that is of the old table or in the snapshot.
A table made anew must be read whole anyway: what was written before it was published is nowhere in the log.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.errors import SchemaMismatchError
from spark.positions.layout import snapshot_of
from spark.schema.ledger import Change, Ledger
from spark.schema.policy import EVOLVE, HALT, IGNORE, SchemaChanges
from spark.specs import SilverSpec

KIND = "drop_table"


def noticed(ledger: Ledger, spec: SilverSpec, *, after: str) -> tuple[Ledger, list[Change]]:
    """The ledger with the table's generation, and what there is to tell of it. `after`: the highest position folded.

    Raises:
        SchemaMismatchError: when it is another one and the policy says halt.
    """
    if not spec.generation or ledger.generation == spec.generation:
        return ledger, []
    if not ledger.generation:
        return replace(ledger, generation=spec.generation), []
    choice = SchemaChanges.of(spec.schema_changes).drop_table
    if choice == HALT:
        raise SchemaMismatchError(
            f"table {spec.table}: it was dropped and made again at the source (number {ledger.generation} there, now "
            f"{spec.generation}), and schema_changes.drop_table is halt; choose another policy for the table"
        )
    # Numbers of the old table's columns say nothing about the new one's.
    columns = tuple(replace(c, number=None) if c.number is not None and c.number > 0 else c for c in ledger.columns)
    renewed = after if choice == EVOLVE else ledger.renewed
    now = replace(ledger, columns=columns, generation=spec.generation, renewed=renewed)
    done = "rows from before go with the next full snapshot" if choice == EVOLVE else "rows from before are kept"
    told = Change(KIND, spec.table, ledger.generation, spec.generation, done)
    return now, [] if choice == IGNORE else [told]


def begun(events: DataFrame, spec: SilverSpec, truncated: str | None) -> str | None:
    """Where the new table begins, once its full snapshot is among the events (bronze rows); None while there is nothing new."""
    if not spec.renewed or (truncated is not None and truncated > spec.renewed):
        return None
    whole = (sf.col("op") == "r") & ~sf.col("snapshot").eqNullSafe("incremental") & (sf.col("position") > spec.renewed)
    found = events.where(whole).agg(sf.max(snapshot_of(sf.col("position")))).first()
    return None if found is None else found[0]
