"""A silver table that is not there yet: its columns, properties, ledger and first rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from spark.delta import first_commit
from spark.schema.column_ledger import PROPERTY
from spark.schema.evolution import first_ledger
from spark.silver import table as silver_table
from spark.small_tables.decode import Field
from spark.specs import SilverSpec

_META = (
    pa.field("_cdc_position", pa.string()),
    pa.field("_cdc_op", pa.string()),
    pa.field("_cdc_source_ts", pa.timestamp("us", "UTC")),
    pa.field("_cdc_tx_id", pa.string()),
)


def lake_schema(fields: Sequence[Field]) -> pa.Schema:
    """The table's columns, with the source's types as comments, and silver's own."""
    own = [pa.field(f.column.name, f.form.lake, metadata={"comment": f.column.source_type}) for f in fields]
    return pa.schema([*own, *_META])


def create_table(spec: SilverSpec, rows: pa.Table, user_metadata: str) -> None:
    """The table as its version 0, or nothing.

    Raises:
        LeftToSparkError: somebody else has made one meanwhile.
    """
    properties = {**silver_table.properties(spec), PROPERTY: first_ledger(spec).to_text()}
    first_commit.create_table(spec.path, rows, properties, user_metadata, bounded=silver_table.columns_with_bounds(spec))
