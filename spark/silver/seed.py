"""A silver table of which nothing is folded, with the columns that it had before it was lost.

Its schema ledger says them: those that the source has dropped, those that stand beside others, and in which order they came. The
source's catalogue knows only those of now, so a table that is born from it has no place for what older events hold.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from pyspark.sql import SparkSession

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
    # All of its rows are still to be folded, by the rules of today.
    told = replace(ColumnLedger.from_text(ledger), made_by=(FoldRules.of(spec),))
    with lend_to_spark(spec.path):
        before = silver_folded(session, spec.path)
        if before is not None and before.topics:
            return False
        if before is None:
            wanted = replace(spec, columns=told.columns, keys=keys(told.columns, spec))
            _create(session, wanted)
        set_properties(session, spec.path, {PROPERTY: told.to_text()})
    return True


def _create(session: SparkSession, spec: SilverSpec) -> None:
    columns = ", ".join(f"{slot(number)} {lake_type(column).name}" for number, column in enumerate(spec.columns))
    rows = silver_table.name_columns(session.createDataFrame([], f"{columns}, {_META}"), spec)
    writer = rows.write.format("delta").mode("error").options(**silver_table.properties(spec))
    metadata = silver_metadata(f"seed:{uuid.uuid4().hex}", Folded(bronze_version=-1, topics={}), {})
    writer.option("userMetadata", metadata).save(spec.path)
