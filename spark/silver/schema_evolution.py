"""Brings a silver table to the columns that its source has now, by the table's policy, before anything is folded.

Every step can be done again: a job killed in between finds the ledger as it was and repeats them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark.errors import RebuildNeededError, TableStopError
from spark.events.field_columns import order_of, orders_with
from spark.silver import table_generation
from spark.silver.column_ledger import PROPERTY, TRACKED, ColumnChange, ColumnLedger, FoldRules, add_rules
from spark.silver.schema_difference import (
    EVOLVE,
    SchemaChangePolicy,
    SchemaPlan,
    holders,
    keys,
    newest_value,
    plan,
    rebuild_command,
)
from spark.specs import Column, SilverSpec, conditions_text
from spark.table.identifiers import NEEDS_COLUMN_MAPPING, literal, quote, table_at
from spark.values.lake_types import lake_type
from spark.values.missing_values import missing_leaf

_NO_ZONE = "timestamp_ntz"
MAPPING = {"delta.columnMapping.mode": "name"}
# https://docs.delta.io/latest/delta-batch.html#idempotent-table-writes-in-foreachbatch; MERGE knows them as settings alone.
_TXN_APP, _TXN_VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
WIDENING = {"delta.enableTypeWidening": "true"}


def record_birth(session: SparkSession, spec: SilverSpec, facts: Mapping[str, str] | None = None) -> None:
    """Begin the ledger of a table that has just been created; `facts` are other properties that it keeps from its birth."""
    set_properties(session, spec.path, {PROPERTY: first_ledger(spec).to_text(), **(facts or {})})


def first_ledger(spec: SilverSpec) -> ColumnLedger:
    """The ledger of a table that begins with the spec's columns."""
    born = replace(_born(spec.columns), keys=spec.keys, generation=spec.generation, where=spec.where)
    return replace(born, made_by=(FoldRules.of(spec),), left_out=spec.excluded)


def at_birth(spec: SilverSpec) -> SilverSpec:
    """The spec of a table that does not exist yet: events from before a declared rename have the old name."""
    columns = []
    for column in spec.columns:
        old, formerly = spec.former_name(column.name), list[str]()
        while old and old not in formerly:
            formerly.append(old)
            old = spec.former_name(old)
        columns.append(replace(column, formerly=tuple(formerly)) if formerly else column)
    return table_generation.at_birth(replace(spec, columns=tuple(columns)))


def align_columns(session: SparkSession, spec: SilverSpec, *, after: str) -> SilverSpec:
    """The spec with the columns to fold from now on: the source's, and those that are kept.

    `after` is the highest position that silver has folded.

    Raises:
        TableStopError: where the policy says halt, or no way is left but a new table.
        RebuildNeededError: the rows are told apart by other columns than before.
    """
    old = read_ledger(session, spec)
    comparison = compare_columns(old or _ledger_of_columns(session, spec), spec, after=after)
    effective, ledger, planned = comparison.effective, comparison.ledger, comparison.planned
    if old is not None and comparison.is_settled:
        return effective
    _alter(session, effective, planned)
    _fill(session, spec, planned, once=ledger)
    set_properties(session, spec.path, {PROPERTY: comparison.next_ledger(after=after).to_text()})
    return effective


@dataclass(frozen=True)
class ColumnComparison:
    """A table's ledger (with the generation that the source's table has now) against a spec; `effective` is the spec with the
    columns to fold from now on, `renewed` what there is to tell of the generation."""

    effective: SilverSpec
    ledger: ColumnLedger
    planned: SchemaPlan
    renewed: Sequence[ColumnChange]
    is_settled: bool
    """Whether the table is as it has to be."""

    def next_ledger(self, *, after: str) -> ColumnLedger:
        """The ledger of the table once it has these columns; `after`: the highest position folded until then."""
        now = replace(self.ledger, keys=self.effective.keys, orders=self.effective.orders, where=self.effective.where)
        return now.grown(self.effective.columns, [*self.renewed, *self.planned.changes], at=_now(), after=after)


def compare_columns(old: ColumnLedger, spec: SilverSpec, *, after: str) -> ColumnComparison:
    """What `align_columns` has to do, from the table's ledger alone. Raises TableStopError, RebuildNeededError: as it does."""
    ledger, renewed = table_generation.renew_generation(old, spec, after=after)
    planned = plan(ledger.columns, spec, after=after)
    orders = orders_with(ledger.orders, order_of(ledger.of_source()), order_of(spec.columns, after=after))
    renamed = {olds[0].name: new.name for new, olds in planned.renamed}
    _same_rows(ledger, spec, planned.columns, renamed)
    effective = replace(
        spec, columns=tuple(planned.columns), keys=keys(planned.columns, spec), renewed=ledger.renewed, orders=orders
    )
    _same_key(ledger, effective, renamed)
    made_by = add_rules(ledger.made_by, FoldRules.of(effective), ledger.tracking())
    # Columns of the source that the table has not, or has not had all the time.
    of_source = {*spec.excluded, *(c.name for c in spec.columns)}
    left_out = tuple(sorted({*ledger.left_out, *spec.excluded, *planned.ignored} & of_source))
    ledger = replace(ledger, made_by=made_by, left_out=left_out)
    same = effective.columns == ledger.columns and effective.orders == ledger.orders
    settled = old == ledger and same and not planned.changes and set(ledger.keys) == set(effective.keys)
    return ColumnComparison(effective, ledger, planned, renewed, settled)


def _same_key(ledger: ColumnLedger, spec: SilverSpec, renamed: Mapping[str, str]) -> None:
    """Events from before and after a change of the key's definition do not say of each other which rows they mean.

    A column of the key that was renamed holds the same values, and events from before are read under its former name.
    """
    if ledger.keys and {renamed.get(key, key) for key in ledger.keys} != set(spec.keys):
        was, now = (", ".join(keys) or "none" for keys in (ledger.keys, spec.keys))
        raise RebuildNeededError(
            f"table {spec.table}: its key was ({was}) and is ({now}) now; {spec.path} is unchanged. If ({was}) still tells its "
            f"rows apart, declare keys: [{was}] for the table; if not, build it anew by ({now}): {rebuild_command(spec)}"
        )


def _same_rows(ledger: ColumnLedger, spec: SilverSpec, columns: Sequence[Column], renamed: Mapping[str, str]) -> None:
    """Rows that were left out come with their next event alone, and those that are to go would stay until theirs.

    A condition asks one column of the lake: where a change of type has put a second one beside it, or the lake has kept
    another name, the newer events would not be asked.
    """
    conditions = tuple(replace(condition, column=renamed.get(condition.column, condition.column)) for condition in ledger.where)
    if {*conditions} != {*spec.where}:
        raise RebuildNeededError(
            f"table {spec.table}: it holds {conditions_text(conditions)}, and where says {conditions_text(spec.where)} now; "
            f"{spec.path} is unchanged. Declare what it holds, or make it again with the rows of now: {rebuild_command(spec)}"
        )
    if moved := [
        condition.column for condition in spec.where if [c.name for c in holders(columns, condition.column)] != [condition.column]
    ]:
        raise RebuildNeededError(
            f"table {spec.table}: where asks for {', '.join(moved)}, which the source has changed since; {spec.path} is "
            f"unchanged. Make it again with the columns of now: {rebuild_command(spec)}"
        )


def need_mapping(columns: Sequence[Column]) -> bool:
    """Whether a name needs Delta's column mapping."""
    return any(NEEDS_COLUMN_MAPPING & set(c.name) for c in columns)


def check_portable(spec: SilverSpec) -> None:
    """That a table which all readers are to read needs no column mapping.

    Raises:
        TableStopError: naming the columns whose names need it.
    """
    if spec.portable and (named := [c.name for c in spec.columns if need_mapping([c])]):
        raise TableStopError(
            f"table {spec.table}: columns {named} have names that need Delta's column mapping, and the table is declared to stay "
            "readable by all (compatibility: portable); exclude them (except_column_list), rename them, or declare it current"
        )


def set_properties(session: SparkSession, path: str, properties: Mapping[str, str]) -> None:
    """Set table properties, in a commit of its own."""
    pairs = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in properties.items())
    session.sql(f"ALTER TABLE {table_at(path)} SET TBLPROPERTIES ({pairs})")


def read_ledger(session: SparkSession, spec: SilverSpec) -> ColumnLedger | None:
    """The ledger in the table."""
    row = session.sql(f"SHOW TBLPROPERTIES {table_at(spec.path)} ('{PROPERTY}')").first()
    return ColumnLedger.from_text(row.value) if row is not None and row.value.startswith("{") else None


def read_tracked(session: SparkSession, path: str) -> list[str] | None:
    """The columns whose changes made a version when a history began (none: all); None where it does not say."""
    row = session.sql(f"SHOW TBLPROPERTIES {table_at(path)} ('{TRACKED}')").first()
    return [str(name) for name in json.loads(row.value)] if row is not None and row.value.startswith("[") else None


def _ledger_of_columns(session: SparkSession, spec: SilverSpec) -> ColumnLedger:
    """What a table without a ledger shows: its columns, with its source's types as comments."""
    schema = session.read.format("delta").load(spec.path).schema
    by_name = {c.name: c for c in spec.columns}
    columns = []
    for field in schema.fields:
        if field.name.startswith("_cdc_"):
            continue
        now = by_name.get(field.name)
        source_type = str(field.metadata.get("comment", now.source_type if now else "text"))
        columns.append(
            replace(now, source_type=source_type) if now else Column(field.name, source_type, dialect=spec.columns[0].dialect)
        )
    return _born(columns)


def _alter(session: SparkSession, effective: SilverSpec, planned: SchemaPlan) -> None:
    """New columns, and wider ones."""
    table, policy = table_at(effective.path), SchemaChangePolicy.of(effective.schema_changes)
    schema = session.read.format("delta").load(effective.path).schema
    present = {f.name: f.dataType.simpleString() for f in schema.fields}
    for column in planned.columns:
        expected = lake_type(column).name
        if column in planned.added or column in planned.widened or present.get(column.name) == expected:
            continue
        raise RebuildNeededError(
            f"table {effective.table} column {column.name!r}: {effective.path} has it as {present.get(column.name, 'nothing')}, "
            f"and its ledger as {expected}; build it anew: {rebuild_command(effective)}"
        )
    check_portable(effective)
    # A new table gets the feature by itself, one that is there does not (DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT).
    coming = " ".join(lake_type(c).name for c in (*planned.added, *planned.widened))
    if _NO_ZONE in coming and _NO_ZONE not in " ".join(present.values()):
        set_properties(session, effective.path, {"delta.feature.timestampNtz": "supported"})
    new = [c for c in planned.added if c.name not in present]
    if new:
        if need_mapping(new):
            set_properties(session, effective.path, MAPPING)
        added = ", ".join(f"{quote(c.name)} {lake_type(c).name} COMMENT {literal(c.source_type)}" for c in new)
        session.sql(f"ALTER TABLE {table} ADD COLUMNS ({added})")
    wider = [c for c in planned.widened if present[c.name] != lake_type(c).name]
    if wider and policy.widen == EVOLVE and not effective.portable:
        set_properties(session, effective.path, WIDENING)
        for column in wider:
            session.sql(f"ALTER TABLE {table} ALTER COLUMN {quote(column.name)} TYPE {lake_type(column).name}")
    elif wider:
        _rewrite(session, effective.path, wider)


def _rewrite(session: SparkSession, path: str, wider: Sequence[Column]) -> None:
    """The whole table once, with these columns in their new types."""
    rows = session.read.format("delta").load(path)
    types = {c.name: c for c in wider}
    casts = [
        sf.col(quote(f.name)).cast(lake_type(types[f.name]).name).alias(f.name, metadata={"comment": types[f.name].source_type})
        if f.name in types
        else sf.col(quote(f.name))
        for f in rows.schema.fields
    ]
    rows.select(*casts).write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)


def _fill(session: SparkSession, spec: SilverSpec, planned: SchemaPlan, *, once: ColumnLedger) -> None:
    """What rows from before have in the new columns, in one commit.

    Values that change places would go back if that were repeated: Delta leaves out a second one from the same ledger.
    """
    renamed = [new for new, _ in planned.renamed]
    defaults = [c for c in (*planned.added, *planned.emptied) if missing_leaf(c) is not None and c not in renamed]
    values = [lake_type(c).convert(sf.lit(missing_leaf(c))).alias(f"v{i}") for i, c in enumerate(defaults)]
    sets = [f"t.{quote(c.name)} = s.v{i}" for i, c in enumerate(defaults)]
    sets += [f"t.{quote(c.name)} = NULL" for c in planned.emptied if c not in defaults]
    for new, olds in planned.renamed:
        sources = [(f"t.{quote(old.name)}", lake_type(old).name) for old in olds]
        sets.append(f"t.{quote(new.name)} = {newest_value(sources, lake_type(new).name)}")
    if not sets:
        return
    view = f"cdc_missing_{time.monotonic_ns()}"
    session.range(1).select("id", *values).createOrReplaceTempView(view)
    overwritten = {c.name for c in (*renamed, *planned.emptied)}
    exchanged = any(old.name in overwritten for _, olds in planned.renamed for old in olds)
    transaction = {_TXN_APP: f"cdc_assets.schema.{sha256(once.to_text().encode()).hexdigest()}", _TXN_VERSION: "1"}
    try:
        for name, value in transaction.items() if exchanged else ():
            session.conf.set(name, value)
        merge = f"MERGE INTO {table_at(spec.path)} t USING {view} s ON s.id = 0 WHEN MATCHED THEN UPDATE SET {', '.join(sets)}"
        session.sql(merge).collect()
    finally:
        for name in transaction if exchanged else ():
            session.conf.unset(name)
        session.catalog.dropTempView(view)


def _born(columns: Sequence[Column]) -> ColumnLedger:
    created = [ColumnChange("create", c.name, "", c.source_type, "in the table from its start") for c in columns]
    return ColumnLedger(()).grown(columns, created, at=_now(), after="")


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
