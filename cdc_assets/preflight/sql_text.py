"""Names as a person may paste them into a statement: every identifier quoted."""

from __future__ import annotations

from cdc_assets.registry.identifiers import TableId


def identifier(name: str, quote: str = '"') -> str:
    """One quoted identifier."""
    closing = {"[": "]"}.get(quote, quote)
    return f"{quote}{name.replace(closing, closing * 2)}{closing}"


def table_name(table: TableId, quote: str = '"') -> str:
    """`"schema"."table"`."""
    return f"{identifier(table.schema, quote)}.{identifier(table.table, quote)}"
