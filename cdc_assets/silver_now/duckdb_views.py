"""Views in a DuckDB connection: `silver_now.world_country` for the table country of the source world.

Each scan of a view reads the lake anew. A statement that names one view twice may so see two moments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cdc_assets import names
from cdc_assets.errors import DatabaseError
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform
from cdc_assets.silver_now.current_table import CurrentTable, find_source, now
from spark.delta.identifiers import double_quote


def register(
    connection: Any, source: str | BaseSource, tables: Sequence[str] = (), *, platform: Platform | None = None
) -> list[str]:
    """Make a view of each of these tables of a source, or of all; their names. The connection's cursors do not have them.

    Raises:
        DatabaseError: the registry has no such source or table, or two tables have one name.
    """
    made = dict(current_tables(source, tables, platform))
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {names.NOW}")
    for name, table in made.items():
        hidden = f"{names.NOW}_{name}"
        connection.register(hidden, table)
        connection.execute(f"CREATE OR REPLACE VIEW {names.NOW}.{double_quote(name)} AS FROM {double_quote(hidden)}")
    return [f"{names.NOW}.{name}" for name in made]


def current_tables(
    source: str | BaseSource, tables: Sequence[str], platform: Platform | None
) -> Iterator[tuple[str, CurrentTable]]:
    """These tables of a source, or all of them, by the names of their views.

    Raises:
        DatabaseError: there is none of a name, or two have one.
    """
    known, taken = find_source(source), dict[str, str]()
    for each in tables or [table.name for table in known.tables]:
        found = now(known, each, platform=platform)
        name = names.now_view(known, found.table)
        if taken.setdefault(name.lower(), found.table.name) != found.table.name:
            both = f"{taken[name.lower()]} and {found.table.name}"
            raise DatabaseError(f"{both} would both be {names.NOW}.{name}: name one of them")
        yield name, found
