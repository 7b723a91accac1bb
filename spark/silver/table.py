"""The silver table itself: its columns and its properties; what happens when the source's change is in spark.schema.

The source's type of a column is kept as its comment.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.delta.identifiers import quote, refuse_case_twins, table_at
from spark.delta.log import Commit
from spark.errors import SchemaMismatchError
from spark.schema.evolution import MAPPING, check_portable, need_mapping, set_properties
from spark.schema.own_names import is_own_name
from spark.silver.changes import slot
from spark.specs import DELETED, META, Column, SilverSpec
from spark.types.type_rules import lake_type

DELETION_VECTORS_FROM = 64 << 20
SIZE_LOOK_EVERY = 50
_WITH_STATISTICS = frozenset(
    {
        *("tinyint", "smallint", "int", "bigint", "float", "double", "decimal"),
        *("date", "timestamp", "timestamp_ntz", "string"),
    }
)


def name_columns(rows: DataFrame, spec: SilverSpec) -> DataFrame:
    """Internal columns under the source's names, with the source's types as comments."""
    deleted = [sf.col("_cdc_op").isin("d", "t").alias(DELETED)] if soft(spec) else []
    return rows.select(*_columns(spec), *META, *deleted)


def soft(spec: SilverSpec) -> bool:
    """Whether rows that are gone from the source stay, marked by `_cdc_deleted`."""
    return "soft" in (spec.deletes, spec.truncate)


def _columns(spec: SilverSpec) -> list[Expression]:
    return [sf.col(slot(i)).alias(c.name, metadata={"comment": c.source_type}) for i, c in enumerate(spec.columns)]


def check_names(spec: SilverSpec) -> None:
    """Names that cannot live in one table, before anything is read."""
    names = [c.name for c in spec.columns]
    taken = sorted(filter(is_own_name, {*names}))
    if taken:
        raise SchemaMismatchError(
            f"table {spec.table}: columns {taken} have names that silver uses itself; exclude or rename them in the source"
        )
    refuse_case_twins(names, table=spec.table)
    check_portable(spec)


def properties(spec: SilverSpec) -> dict[str, str]:
    """Table properties at creation: statistics on the key and the position, deletion vectors only once it is large.

    Delta refuses a table that is to have statistics on a boolean, on bytes, an array or a struct.
    """
    stats = ",".join(map(quote, columns_with_bounds(spec)))
    mapping = MAPPING if need_mapping(spec.columns) else {}
    return {
        "delta.dataSkippingStatsColumns": stats,
        "delta.checkpointInterval": "100",
        "delta.enableDeletionVectors": "false",
        **mapping,
    }


def columns_with_bounds(spec: SilverSpec) -> list[str]:
    """Those of which each file's bounds are told, by whichever writer: the key's, and the position."""
    types = {c.name: type_name(c) for c in spec.columns}
    return [*(key for key in spec.keys if types[key] in _WITH_STATISTICS), "_cdc_position"]


def type_name(column: Column) -> str:
    """The name of a column's lake type, without its size: `decimal`."""
    return lake_type(column).name.partition("(")[0]


def mark_deletes(session: SparkSession, spec: SilverSpec) -> None:
    """A table that is to keep deleted rows from now on gets the column that marks them."""
    if soft(spec) and DELETED not in session.read.format("delta").load(spec.path).columns:
        session.sql(f"ALTER TABLE {table_at(spec.path)} ADD COLUMNS ({DELETED} boolean)")


def tune(session: SparkSession, spec: SilverSpec, commit: Commit) -> None:
    """Switch deletion vectors on once the table is large: they cost on 4 MB (1.65 s against 1.27 s a cycle) and pay on
    450 MB (2.3-3 s against 9 s). Looked at only now and then, since looking costs a job (0.48 of a first load's 2.75 s of
    processor time); a first commit says itself how large the table is."""
    if spec.portable:
        return
    small = commit.version == 0 and commit.count("numOutputBytes") < DELETION_VECTORS_FROM
    if commit.version % SIZE_LOOK_EVERY or small:
        return
    detail = session.sql(f"DESCRIBE DETAIL {table_at(spec.path)}").select("sizeInBytes", "properties").first()
    if detail is None or (detail.sizeInBytes or 0) < DELETION_VECTORS_FROM:
        return
    if dict(detail.properties or {}).get("delta.enableDeletionVectors") != "true":
        set_properties(session, spec.path, {"delta.enableDeletionVectors": "true"})
