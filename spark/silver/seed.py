"""A silver table of which nothing is folded, with the columns that it had before it was lost.

Its schema ledger says them: those that the source has dropped, those that stand beside others, and in which order they came. The
source's catalogue knows only those of now, so a table that is born from it has no place for what older events hold.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from spark.delta.commits import Folded, silver_metadata
from spark.delta.lease import lend_to_spark
from spark.delta.log import silver_folded
from spark.schema.column_ledger import PROPERTY, ColumnLedger
from spark.schema.difference import keys
from spark.schema.evolution import set_properties
from spark.schema.fold_rules import FoldRules
from spark.silver import table as silver_table
from spark.silver.changes import slot
from spark.specs import SilverSpec
from spark.types.type_rules import lake_type

_META = "_cdc_position string, _cdc_op string, _cdc_source_ts timestamp, _cdc_tx_id string"


def run(session: SparkSession, spec: SilverSpec, ledger: str) -> bool:
    """Make it, unless there is a table that has folded something; whether it is made. Killed in between, it is done again."""
    return begin_table(session, spec, {PROPERTY: ledger}, _empty_silver)


def begin_table(
    session: SparkSession,
    spec: SilverSpec,
    properties: Mapping[str, str],
    empty: Callable[[SparkSession, SilverSpec, str], DataFrame],
) -> bool:
    """The same for a table of other rows: `empty` makes none of them, given the DDL of the columns that events have.

    `properties` are those that the table gets, its ledger among them.
    """
    # All of its rows are still to be folded, by the rules of today.
    told = replace(ColumnLedger.from_text(properties[PROPERTY]), made_by=(FoldRules.of(spec),))
    with lend_to_spark(spec.path):
        before = silver_folded(session, spec.path)
        if before is not None and before.topics:
            return False
        if before is None:
            wanted = replace(spec, columns=told.columns, keys=told.keys or keys(told.columns, spec))
            columns = ", ".join(f"{slot(number)} {lake_type(column).name}" for number, column in enumerate(told.columns))
            _create(wanted, empty(session, wanted, f"{columns}, {_META}"))
        set_properties(session, spec.path, {**properties, PROPERTY: told.to_text()})
    return True


def _empty_silver(session: SparkSession, spec: SilverSpec, ddl: str) -> DataFrame:
    return silver_table.name_columns(session.createDataFrame([], ddl), spec)


def _create(spec: SilverSpec, rows: DataFrame) -> None:
    writer = rows.write.format("delta").mode("error").options(**silver_table.properties(spec))
    metadata = silver_metadata(f"seed:{uuid.uuid4().hex}", Folded(bronze_version=-1, topics={}), {})
    writer.option("userMetadata", metadata).save(spec.path)
