"""A table's columns where silver may be behind a change of the source's schema.

    silver at version V, events ─▶ the columns of silver's next run ─▶ the columns that the source has now

The ledger in silver tells which columns it knows; what its next run makes of them is planned here by the same rules
(spark.schema.difference), and nothing is altered. So a renamed column is read under its old name where silver still has that, and
events by the names and types that they may have been written under.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from spark.delta.identifiers import quote
from spark.envelopes.places import order_of, orders_with
from spark.schema import difference, generation
from spark.schema.column_ledger import ColumnLedger
from spark.schema.difference import SchemaPlan, holders
from spark.schema.side_columns import newest_value
from spark.silver.changes import lake_types, slot
from spark.specs import Column, SilverSpec
from spark.types.missing import missing_leaf
from spark.types.type_rules import lake_type


@dataclass(frozen=True)
class ColumnsAtCut:
    """`source` is the spec with the source's columns, `lake` with those of silver's next run, `plan` how they come about."""

    source: SilverSpec
    lake: SilverSpec
    plan: SchemaPlan

    @property
    def unheld(self) -> list[str]:
        """The source's columns whose values silver will not have."""
        return [c.name for c in self.source.columns if not self._holding(c)]

    def of_table(self, table: DataFrame, *more: str | Expression) -> DataFrame:
        """Silver's rows as its next run will find them: c0, c1, ... in the order of `lake`, and `more`."""
        values = [
            self._in_table(column, table.columns).cast(kind.name).alias(slot(i))
            for i, (column, kind) in enumerate(zip(self.lake.columns, lake_types(self.lake), strict=True))
        ]
        return table.select(*values, *more)

    def of_source(self, rows: DataFrame) -> DataFrame:
        """Rows in the columns of `lake`, in those of `source`; what silver does not have is NULL in all of them."""
        at = {c.name: i for i, c in enumerate(self.lake.columns)}
        places = [[at[c.name] for c in self._holding(column)] for column in self.source.columns]
        types = {field.name: field.dataType.simpleString() for field in rows.schema.fields}
        values = [
            sf.expr(newest_value([(slot(i), types[slot(i)]) for i in found], kind.name)).cast(kind.name).alias(slot(i))
            for i, (found, kind) in enumerate(zip(places, lake_types(self.source), strict=True))
        ]
        own = {slot(i) for i in range(len(self.lake.columns))}
        rest = [_new_places(places) if name == "absent" else sf.col(name) for name in rows.columns if name not in own]
        return rows.select(*values, *rest)

    def _holding(self, column: Column) -> list[Column]:
        return holders(self.lake.columns, column.name)

    def _in_table(self, column: Column, present: Sequence[str]) -> Expression:
        taken = {new.name: olds for new, olds in self.plan.renamed}
        if column.name in taken:
            olds = [(quote(old.name), lake_type(old).name) for old in taken[column.name]]
            return sf.expr(newest_value(olds, lake_type(column).name))
        if column in self.plan.emptied or column.name not in present:
            missing = missing_leaf(column)
            return sf.lit(None) if missing is None else lake_type(column).convert(sf.lit(missing))
        return sf.col(quote(column.name))


def columns_at_cut(ledger: ColumnLedger | None, spec: SilverSpec, *, after: str) -> ColumnsAtCut:
    """Of a table with that ledger, which has folded up to the position `after`.

    Raises:
        SchemaMismatchError: the table stops at this change of the schema.
    """
    if ledger is None:
        return ColumnsAtCut(spec, spec, SchemaPlan(columns=[*spec.columns]))
    known, _ = generation.renew_generation(ledger, spec, after=after)
    wanted = difference.plan(known.columns, spec, after=after)
    orders = orders_with(known.orders, order_of(known.of_source()), order_of(spec.columns, after=after))
    keys = difference.keys(wanted.columns, spec)
    lake = replace(spec, columns=tuple(wanted.columns), keys=keys, renewed=known.renewed, orders=orders)
    return ColumnsAtCut(spec, lake, wanted)


def _new_places(places: Sequence[Sequence[int]]) -> Expression:
    """`absent` by the numbers of the source's columns."""
    told = [sf.array_contains("absent", found[0]) if found else sf.lit(False) for found in places]
    numbers = [sf.when(sf.coalesce(each, sf.lit(False)), i) for i, each in enumerate(told)]
    listed = sf.array_compact(sf.array(*numbers))
    return sf.when(sf.size(listed) > 0, listed).alias("absent")
