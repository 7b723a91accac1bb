"""Names as a person may paste them into a statement: every identifier quoted."""

from __future__ import annotations

from cdc_assets.registry.identifiers import TableId


def identifier(name: str, quote: str = '"') -> str:
    """The name as an identifier between `quote`; the same sign within it is doubled."""
    closing = {"[": "]"}.get(quote, quote)
    return f"{quote}{name.replace(closing, closing * 2)}{closing}"


def table_name(table: TableId, quote: str = '"') -> str:
    """The table as an identifier with its schema: `"schema"."table"`."""
    return f"{identifier(table.schema, quote)}.{identifier(table.table, quote)}"
