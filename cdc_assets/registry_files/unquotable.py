"""Tables that the server or Debezium's own SQL cannot name: refused where they are declared, not by the connector."""

from __future__ import annotations

from collections.abc import Iterator

from cdc_assets.registry.models import BaseSource


def find_unquotable(source: BaseSource) -> Iterator[tuple[int, str]]:
    """The index of such a table, and why."""
    own = source.captured
    for index, table in enumerate(own.tables if own else ()):
        why = next(filter(None, map(own.database.name_refusal, table.id)), "") if own else ""
        if why:
            yield (
                index,
                f"{why}, got {table.name!r}; rename it at the source (ALTER TABLE … RENAME), or take it out of this file",
            )
