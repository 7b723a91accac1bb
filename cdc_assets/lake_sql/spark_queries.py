"""Statements by the Spark server: the tables that a statement names become temporary views of a session of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdc_assets.cuts.named_versions import open_entry
from cdc_assets.errors import LakeSqlError, SparkRunError
from cdc_assets.lake_sql.answer import Answer, answer, hidden_columns, refusal
from cdc_assets.lake_sql.lake_tables import LakeTable, code_and_texts, pattern_of, tables_in
from cdc_assets.resources.hidden_values import HiddenValues
from cdc_assets.resources.platform import Platform
from cdc_assets.tables.current_spec import current_spec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def query_by_spark(
    statement: str, tables: Sequence[LakeTable], platform: Platform, *, limit: int, show_sensitive: bool = False
) -> Answer:
    """At most so many rows of one question.

    Raises:
        LakeSqlError: what Spark says, with the names that are near to an unknown one.
    """
    named = tables_in(statement, tables)
    if absent := [table.name for table in named if not table.is_there]:
        raise LakeSqlError(f"{', '.join(absent)}: nothing of it is in the lake yet: cdc status")
    for table in named:
        if table.at is not None:
            open_entry(table.path, table.at)
    views, values = view_names(named), HiddenValues()
    specs = {table.name: current_spec(platform, table.source, table.table) for table in named if table.is_now and table.table}

    def rows(session: SparkSession, text: str) -> Any:
        for table in named:
            found = _rows_of(session, table, specs.get(table.name))
            shown = found if show_sensitive else _hide(found, table.sensitive, values.salt)
            shown.createOrReplaceTempView(views[table.name])
        # Within brackets Spark's grammar takes questions alone. A session's own `sql` runs commands at once.
        return session.sql(f"SELECT * FROM (\n{text}\n)").limit(limit + 1).toArrow()

    try:
        found = platform.spark().run(rows, with_views(statement, named, views))
    except SparkRunError as error:
        raise refusal(statement, str(error), tables) from error
    listed = [found.column(i).to_pylist() for i in range(found.num_columns)]
    hidden = [] if show_sensitive else hidden_columns(named)
    return answer(found.column_names, [*zip(*listed, strict=True)], limit, hidden)


def view_names(named: Sequence[LakeTable]) -> dict[str, str]:
    """`silver_shop_orders` by the table's name; another word behind it where that is taken."""
    found: dict[str, str] = {}
    for table in named:
        name = "_".join(table.parts).lower()
        found[table.name] = name if name not in found.values() else f"{name}_{len(found)}"
    return found


def with_views(statement: str, named: Sequence[LakeTable], views: Mapping[str, str]) -> str:
    """The statement with views in the tables' places: Spark's temporary views have names of one part."""
    longest_first = sorted(named, key=lambda table: -len(table.parts))

    def rewrite(code: str) -> str:
        for table in longest_first:
            code = pattern_of(table).sub(views[table.name], code)
        return code

    return "".join(rewrite(piece) if is_code else piece for piece, is_code in code_and_texts(statement))


def _rows_of(session: SparkSession, table: LakeTable, spec: Any) -> DataFrame:
    from pyspark.sql import functions as sf

    from spark.silver import view

    if table.is_now:
        return view.rows_now(session, spec)
    reader = session.read.format("delta")
    found = (reader if table.at is None else reader.option("versionAsOf", table.at.version)).load(table.path)
    return found if table.only is None else found.where(sf.col("table") == table.only)


def _hide(rows: DataFrame, sensitive: Sequence[str], salt: bytes) -> DataFrame:
    from pyspark.sql import functions as sf

    from spark.delta.identifiers import quote

    for name in sensitive:
        if name in rows.columns:
            text = sf.concat(sf.lit(salt.hex()), sf.col(quote(name)).cast("string"))
            rows = rows.withColumn(name, sf.concat(sf.lit("hash:"), sf.substring(sf.sha2(text, 256), 1, 16)))
    return rows
