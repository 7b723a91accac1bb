"""The MERGE of folded changes into silver: each only above the row's own position.

`forced` changes (a re-drive, or a key that is folded again from all of bronze) are applied whatever the row's position is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from spark.silver.silver_table import keeps_deleted_rows, name_columns
from spark.silver.typed_changes import slot
from spark.specs import DELETED, META, SilverSpec
from spark.table.delta_table import Commit, table_of
from spark.table.identifiers import literal, quote, table_at
from spark.table.spark_session import execute as run


def execute(
    session: SparkSession, spec: SilverSpec, source: DataFrame, metadata: str, operation_id: str, *, truncated: str | None
) -> Commit:
    """One commit; `truncated` is the position of a TRUNCATE that the table has not seen."""
    view = f"cdc_changes_{operation_id}"
    sql = merge_statement(spec, view, truncated=truncated, columns=source.columns)
    run(session, sql, view=view, rows=source, metadata=metadata)
    return table_of(spec.path).find_commit(operation_id)


@dataclass(frozen=True)
class Clauses:
    """What the changes `s` do to the rows `t`, as SQL: values are pairs of a column, quoted, and an expression."""

    same: str
    newer: str
    values: list[tuple[str, str]]
    deletes: bool
    makes_row: str
    """Of a change that finds no row: whether it makes one."""


def clauses(spec: SilverSpec, columns: Sequence[str]) -> Clauses:
    """For changes in these columns. Key columns that may be NULL match null-safely."""
    newer = "s._cdc_position > t._cdc_position"
    if "forced" in columns:
        newer = f"({newer} OR s.forced)"
    targets = [(quote(c.name), slot(i)) for i, c in enumerate(spec.columns)] + [(m, m) for m in META]
    by_name = {c.name: (slot(i), c) for i, c in enumerate(spec.columns)}
    same = " AND ".join(f"t.{quote(k)} {'<=>' if by_name[k][1].nullable else '='} s.{by_name[k][0]}" for k in spec.keys)
    values = [(name, f"s.{value}") for name, value in targets]
    if keeps_deleted_rows(spec):
        values.append((DELETED, "s._cdc_op IN ('d', 't')"))
    makes_row = "true" if spec.deletes == "soft" else "s._cdc_op <> 'd'"
    return Clauses(same, newer, values, spec.deletes == "hard", makes_row)


def rows_made(spec: SilverSpec, source: DataFrame) -> DataFrame:
    """The changes that make a row where there is none, named as the table's rows are."""
    return name_columns(source.alias("s").where(clauses(spec, source.columns).makes_row), spec)


def merge_statement(spec: SilverSpec, view: str, *, truncated: str | None, columns: list[str]) -> str:
    """The clauses that are rare are there only when they are needed."""
    merge, parts = clauses(spec, columns), []
    if merge.deletes:
        parts.append(f"WHEN MATCHED AND {merge.newer} AND s._cdc_op = 'd' THEN DELETE")
    updates = ", ".join(f"t.{name} = {value}" for name, value in merge.values)
    parts.append(f"WHEN MATCHED AND {merge.newer} THEN UPDATE SET {updates}")
    names, values = ", ".join(n for n, _ in merge.values), ", ".join(v for _, v in merge.values)
    parts.append(f"WHEN NOT MATCHED AND {merge.makes_row} THEN INSERT ({names}) VALUES ({values})")
    if truncated is not None:
        parts.append(_truncate(spec, truncated))
    return f"MERGE INTO {table_at(spec.path)} t USING {view} s ON {merge.same} {' '.join(parts)}"


def below_truncate(spec: SilverSpec, truncated: str) -> str:
    """Whether a row `t` that no change is about goes with a TRUNCATE at this position."""
    below = f"t._cdc_position < {literal(truncated)}"
    return f"{below} AND NOT coalesce(t.{DELETED}, false)" if spec.truncate == "soft" else below


def values_of_truncate(truncated: str) -> list[tuple[str, str]]:
    """What such a row has then, where it stays."""
    return [("_cdc_op", "'t'"), ("_cdc_position", literal(truncated)), (DELETED, "true")]


def _truncate(spec: SilverSpec, truncated: str) -> str:
    below = below_truncate(spec, truncated)
    if spec.truncate != "soft":
        return f"WHEN NOT MATCHED BY SOURCE AND {below} THEN DELETE"
    gone = ", ".join(f"{name} = {value}" for name, value in values_of_truncate(truncated))
    return f"WHEN NOT MATCHED BY SOURCE AND {below} THEN UPDATE SET {gone}"
