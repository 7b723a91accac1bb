"""The MERGE of folded changes into silver: each only above the row's own position.

`absent` lists columns whose value the changes do not hold: the row keeps its own. Where such a change finds no row, the
statement ends with `RowMissingError` before anything is committed; the job then looks for those keys and sets them aside. Of a
table whose events say which columns they are about, it makes a row.
`forced` changes (a re-drive, or a key that is folded again from all of bronze) are applied whatever the row's position is.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from spark.delta.identifiers import literal, quote, table_at
from spark.delta.log import Commit, commit_of
from spark.delta.statement import execute as run
from spark.errors import RowMissingError
from spark.silver.changes import key_slots, slot
from spark.silver.table import soft
from spark.specs import DELETED, META, SilverSpec


def execute(
    session: SparkSession, spec: SilverSpec, source: DataFrame, metadata: str, operation_id: str, *, truncated: str | None
) -> Commit:
    """One commit; `truncated` is the position of a TRUNCATE that the table has not seen."""
    view = f"cdc_changes_{operation_id}"
    sql = statement(spec, view, truncated=truncated, columns=source.columns)
    run(session, sql, view=view, rows=source, metadata=metadata)
    return commit_of(session, spec.path, operation_id)


def statement(spec: SilverSpec, view: str, *, truncated: str | None, columns: list[str]) -> str:
    """Key columns that may be NULL match null-safely. The clauses that are rare are there only when they are needed."""
    parts, keys = "absent" in columns, key_slots(spec)
    newer = "s._cdc_position > t._cdc_position"
    if "forced" in columns:
        newer = f"({newer} OR s.forced)"
    targets = [(quote(c.name), slot(i)) for i, c in enumerate(spec.columns)] + [(m, m) for m in META]
    by_name = {c.name: (slot(i), c) for i, c in enumerate(spec.columns)}
    same = " AND ".join(f"t.{quote(k)} {'<=>' if by_name[k][1].nullable else '='} s.{by_name[k][0]}" for k in spec.keys)
    updates = [
        f"t.{name} = {_keep_or_take(spec, name, value) if parts and value not in (*keys, *META) else f's.{value}'}"
        for name, value in targets
    ]
    inserts = [(name, f"s.{value}") for name, value in targets]
    if parts and not spec.partial:
        alone = f"CASE WHEN s.absent IS NOT NULL THEN CAST(raise_error('{RowMissingError.mark}') AS STRING) ELSE s._cdc_op END"
        inserts = [(name, alone if name == "_cdc_op" else value) for name, value in inserts]
    if soft(spec):
        updates.append(f"t.{DELETED} = s._cdc_op IN ('d', 't')")
        inserts.append((DELETED, "s._cdc_op IN ('d', 't')"))
    clauses = []
    if spec.deletes == "hard":
        clauses.append(f"WHEN MATCHED AND {newer} AND s._cdc_op = 'd' THEN DELETE")
    clauses.append(f"WHEN MATCHED AND {newer} THEN UPDATE SET {', '.join(updates)}")
    wanted = "s._cdc_op <> 'd'"
    if spec.deletes == "soft":
        wanted = "(s._cdc_op <> 'd' OR s.absent IS NULL)" if parts else "true"
    names, values = ", ".join(n for n, _ in inserts), ", ".join(v for _, v in inserts)
    clauses.append(f"WHEN NOT MATCHED AND {wanted} THEN INSERT ({names}) VALUES ({values})")
    if truncated is not None:
        clauses.append(_truncate(spec, truncated))
    return f"MERGE INTO {table_at(spec.path)} t USING {view} s ON {same} {' '.join(clauses)}"


def _keep_or_take(spec: SilverSpec, name: str, value: str) -> str:
    there = f" AND (s._cdc_op = 'd' OR NOT coalesce(t.{DELETED}, false))" if spec.partial and soft(spec) else ""
    return f"CASE WHEN array_contains(s.absent, {int(value[1:])}){there} THEN t.{name} ELSE s.{value} END"


def _truncate(spec: SilverSpec, truncated: str) -> str:
    below = f"t._cdc_position < {literal(truncated)}"
    if spec.truncate != "soft":
        return f"WHEN NOT MATCHED BY SOURCE AND {below} THEN DELETE"
    gone = f"_cdc_op = 't', _cdc_position = {literal(truncated)}, {DELETED} = true"
    return f"WHEN NOT MATCHED BY SOURCE AND {below} AND NOT coalesce(t.{DELETED}, false) THEN UPDATE SET {gone}"
