"""Which readers a table of the lake is kept for: today's alone, or all that read Delta's plain form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from spark.delta.identifiers import NEEDS_COLUMN_MAPPING

if TYPE_CHECKING:
    from cdc_assets.registry.base_table import Table
    from cdc_assets.registry.models import BaseSource

Compatibility = Literal["current", "portable"]
"""Today's Spark and delta-rs, or all readers."""


def is_portable(source: BaseSource, table: Table) -> bool:
    """Whether the table is declared to stay readable by all."""
    return (table.compatibility or source.compatibility) == "portable"


def refuse_features(source: BaseSource) -> None:
    """What of a portable table's declaration needs a feature that not all readers have.

    Raises:
        ValueError: naming the table, and the setting.
    """
    for table in source.tables:
        if is_portable(source, table) and (table.schema_changes or source.schema_changes).widen == "evolve":
            raise ValueError(
                f"table {table.name}: compatibility: portable and schema_changes: {{widen: evolve}}: Delta's widened types "
                "are read by Spark alone; take widen: rewrite"
            )
        named = [name for name in getattr(table, "columns", ()) if NEEDS_COLUMN_MAPPING & set(name)]
        if is_portable(source, table) and named:
            raise ValueError(
                f"table {table.name}: compatibility: portable, and columns {', '.join(map(repr, named))} have names that need "
                "Delta's column mapping: name them in except_column_list, or rename them"
            )
