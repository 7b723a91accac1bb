"""Partitioned tables of PostgreSQL: a publication has to send their changes under their own names."""

from __future__ import annotations

from cdc_assets import names
from cdc_assets.kinds import expect
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.postgresql import Database
from cdc_assets.resources.databases.postgresql_capture import PostgresCapture


def publish_by_root(source: CapturedSource) -> str:
    """Alter a publication that does not, and say what that has cost so far; empty where there was nothing to do.

    Raises:
        DatabaseError: the publication is another role's.
    """
    publication = names.publication_name(source)
    late = PostgresCapture(expect(source.database, Database)).publish_by_root(publication, [table.id for table in source.tables])
    if not late:
        return ""
    listed = " ".join(map(str, late))
    return (
        f"changes of {listed} were published under the names of their partitions, which are not captured; from now on they come "
        f"under its own name (ALTER PUBLICATION {publication}). For what was lost: cdc onboard {source.name} {listed} --again"
    )
