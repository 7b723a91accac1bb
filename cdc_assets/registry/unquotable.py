"""Tables that Debezium cannot name in its own SQL: refused where they are declared, not by the connector."""

from __future__ import annotations

from collections.abc import Iterator

from cdc_assets.registry.models import BaseSource, Database


def find_unquotable(source: BaseSource) -> Iterator[tuple[int, str]]:
    """The index of such a table, and why.

    PostgreSQL's connector names its tables in CREATE PUBLICATION, and takes a name that begins or ends with a quote for one that
    is quoted already (io.debezium.relational.TableId.quote, 3.7): the statement is invalid, and no table of the source is read.
    """
    if not isinstance(getattr(source, "database", None), Database):
        return
    for index, table in enumerate(source.tables):
        if any(part.startswith('"') or part.endswith('"') for part in table.id):
            yield (
                index,
                f"Debezium cannot publish a table or schema whose name begins or ends with a double quote, got {table.name!r}; "
                "rename it at the source (ALTER TABLE … RENAME), or take it out of this file",
            )
