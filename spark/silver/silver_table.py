"""The silver table itself: its columns, its properties, and how one that was lost begins again.

The source's type of a column is kept as its comment, and a column that has one of silver's own names is refused. What
happens when the source's columns change is in spark.silver.schema_evolution. A lost table begins with the columns
that its schema ledger names, dropped and side columns included: the source's catalogue knows only those of now, and
older events would find no place.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from spark.errors import TableStopError
from spark.silver.column_ledger import PROPERTY, ColumnLedger, FoldRules, is_own_name
from spark.silver.schema_difference import keys
from spark.silver.schema_evolution import MAPPING, check_portable, need_mapping, set_properties
from spark.silver.typed_changes import slot
from spark.specs import DELETED, META, Column, SilverSpec
from spark.table.commit_metadata import Folded, silver_metadata
from spark.table.delta_table import Commit, table_of
from spark.table.identifiers import quote, refuse_case_twins, table_at
from spark.table.write_lease import lend_to_spark
from spark.values.lake_types import lake_type

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
    deleted = [sf.col("_cdc_op").isin("d", "t").alias(DELETED)] if keeps_deleted_rows(spec) else []
    return rows.select(*_columns(spec), *META, *deleted)


def keeps_deleted_rows(spec: SilverSpec) -> bool:
    """Whether rows that are gone from the source stay, marked by `_cdc_deleted`."""
    return "soft" in (spec.deletes, spec.truncate)


def _columns(spec: SilverSpec) -> list[Expression]:
    return [sf.col(slot(i)).alias(c.name, metadata={"comment": c.source_type}) for i, c in enumerate(spec.columns)]


def check_names(spec: SilverSpec) -> None:
    """Names that cannot live in one table, before anything is read."""
    names = [c.name for c in spec.columns]
    taken = sorted(filter(is_own_name, {*names}))
    if taken:
        raise TableStopError(
            f"table {spec.table}: columns {taken} have names that silver uses itself; exclude or rename them in the source"
        )
    refuse_case_twins(names, table=spec.table)
    check_portable(spec)


def table_properties(spec: SilverSpec) -> dict[str, str]:
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
    if keeps_deleted_rows(spec) and DELETED not in session.read.format("delta").load(spec.path).columns:
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


_META = "_cdc_position string, _cdc_op string, _cdc_source_ts timestamp, _cdc_tx_id string"


def seed_silver(session: SparkSession, spec: SilverSpec, ledger: str) -> bool:
    """Make it, unless there is a table that has folded something; whether it is made. Killed in between, it is done again."""

    def empty(session: SparkSession, spec: SilverSpec, ddl: str) -> DataFrame:
        return name_columns(session.createDataFrame([], ddl), spec)

    return begin_table(session, spec, {PROPERTY: ledger}, empty)


def begin_table(
    session: SparkSession,
    spec: SilverSpec,
    properties: Mapping[str, str],
    empty: Callable[[SparkSession, SilverSpec, str], DataFrame],
) -> bool:
    """The same for a table of other rows: `empty` makes none of them, given the DDL of the columns that events have.

    `properties` are those that the table gets, its ledger among them.

    The schema ledger says its columns: those that the source has dropped, those that stand beside others, and in which
    order they came.
    """
    # All of its rows are still to be folded, by the rules of today.
    ledger = replace(ColumnLedger.from_text(properties[PROPERTY]), made_by=(FoldRules.of(spec),))
    with lend_to_spark(spec.path):
        before = table_of(spec.path).silver_folded()
        if before is not None and before.topics:
            return False
        if before is None:
            seeded = replace(spec, columns=ledger.columns, keys=ledger.keys or keys(ledger.columns, spec))
            columns = ", ".join(f"{slot(number)} {lake_type(column).name}" for number, column in enumerate(ledger.columns))
            _create(seeded, empty(session, seeded, f"{columns}, {_META}"))
        set_properties(session, spec.path, {**properties, PROPERTY: ledger.to_text()})
    return True


def _create(spec: SilverSpec, rows: DataFrame) -> None:
    writer = rows.write.format("delta").mode("error").options(**table_properties(spec))
    metadata = silver_metadata(f"seed:{uuid.uuid4().hex}", Folded(bronze_version=-1, topics={}), {})
    writer.option("userMetadata", metadata).save(spec.path)
