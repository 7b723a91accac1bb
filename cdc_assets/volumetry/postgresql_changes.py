"""PostgreSQL's own counters of its tables' changes, as a witness of the flow (cdc_assets.volumetry.flow).

The counters move for rolled back changes too, so a table without events counts as changed only if one of these says that
something was committed: no transaction of the database was rolled back meanwhile; its live rows have changed in number; a row of
it is from a transaction since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cdc_assets import names
from cdc_assets.quantity import quantity
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.postgresql import Database
from cdc_assets.resources.connect import ConnectClient
from cdc_assets.resources.databases.postgresql_activity import Counters, PostgresActivity
from cdc_assets.volumetry.flow import Baseline, Changes
from cdc_assets.volumetry.unsent_changes import UnsentChanges


class PostgresWitness:
    """The changes of one source, witnessed by its server's counters."""

    def __init__(self, database: Database) -> None:
        self.database = PostgresActivity(database)

    def now(self, tables: Sequence[Table]) -> dict[str, Any]:
        """The counters, behind a place in the log."""
        return self.database.activity([table.id for table in tables]).to_json()

    def follows(self, before: Baseline, now: Baseline) -> bool:
        """The counters have not been set back."""
        return "lsn" in before and before.get("reset") == now["reset"]

    def behind(self, source: Mapping[str, Any], before: Baseline) -> bool:
        """Whether the event's LSN is not below the baseline's."""
        return int(source["lsn"]) >= int(before["lsn"])

    def changes(self, tables: Sequence[Table], quiet: Sequence[Table], before: Baseline, now: Baseline) -> Changes:
        """Of every table; committed where a quiet one has some that were not all rolled back."""
        counts, committed = {}, {}
        for table in tables:
            if table.name not in before["tables"] or table.name not in now["tables"]:
                continue
            was, is_ = Counters(**before["tables"][table.name]), Counters(**now["tables"][table.name])
            counts[table.name] = is_.changes - was.changes
            if table in quiet and counts[table.name] > 0 and self._has_committed(table, was, is_, before, now):
                committed[table.name] = f"{quantity(counts[table.name], 'row change')} at the source since the last check"
        return Changes(counts, committed)

    def unsent(self, source: CapturedSource, connect: ConnectClient, before: Baseline | None) -> UnsentChanges:
        """None: PostgreSQL's log tells nobody of what it does not decode (docs/explanation/schema-changes.md)."""
        return UnsentChanges()

    def tables_outside_log(self, source: CapturedSource, config: Mapping[str, str]) -> dict[str, str]:
        """Tables that are not in the publication, or by their partitions only."""
        publication = config.get("publication.name", names.publication_name(source))
        published = self.database.publication_tables(publication)
        parted = self.database.tables_by_partitions(publication, [table.id for table in source.tables])
        by_partitions = {
            table.name: f"publication {publication} sends its changes under the names of its partitions, which are not captured; "
            f"ALTER PUBLICATION {publication} SET (publish_via_partition_root = true), then take a snapshot of the table"
            for table in source.tables
            if table.id in parted
        }
        return by_partitions | {
            table.name: f"not in publication {publication}: its changes are not decoded and are lost to the log; "
            f"ALTER PUBLICATION {publication} ADD TABLE {table.name}, then take a snapshot of the table"
            for table in source.tables
            if table.id not in published and table.name not in by_partitions
        }

    def _has_committed(self, table: Table, was: Counters, now: Counters, before: Baseline, after: Baseline) -> bool:
        if after["rollbacks"] == before["rollbacks"]:
            return True
        if now.kept == was.kept and now.live != was.live:
            return True
        return bool(self.database.has_changed_since(table.id, before["next_xid"]))
