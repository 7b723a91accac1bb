"""What a database itself tells of changes, as a witness of the flow: PostgreSQL's counters of its tables, the binlog of a
MariaDB or a MySQL and its tables' update times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cdc_assets.capture.named_log_position import connector_position
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.clients.databases.binlog_activity import MariaDbActivity, MySqlActivity
from cdc_assets.clients.databases.binlog_unsent import SAME_PLACE, UnsentChange
from cdc_assets.clients.databases.postgresql_capture import Counters, PostgresActivity
from cdc_assets.proof.capture_flow import Baseline, Changes
from cdc_assets.proof.unsent_changes import UnsentChanges, read_unsent_changes, remember
from cdc_assets.registry import names
from cdc_assets.registry.databases import Database, MariaDb, MySql
from cdc_assets.registry.source_declaration import CapturedSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity


class BinlogWitness:
    """The changes of one source, witnessed by its binlog.

    MariaDB counts no changed rows by table, and MySQL (`performance_schema.table_io_waits_summary_by_table`) those that are
    rolled back too, since the server began, where a role may see them. `information_schema.tables.update_time` says as cheaply
    that a table did not change; what it does not settle (a change, or nothing known) is told by the binlog, which holds what
    was committed.
    """

    def __init__(self, database: MariaDbActivity | MySqlActivity) -> None:
        self.database = database

    def now(self, tables: Sequence[Table]) -> dict[str, Any]:
        """A place of the binlog."""
        at, seconds = self.database.place_and_clock()
        return {"file": at.file, "position": at.position, "seconds": seconds}

    def follows(self, before: Baseline, now: Baseline) -> bool:
        """The binlog has not been begun anew."""
        return "file" in before and _place(before) <= _place(now)

    def behind(self, source: Mapping[str, Any], before: Baseline) -> bool:
        """By file and position."""
        return BinlogPosition.of(source["file"], int(source["pos"])) >= _place(before)

    def changes(self, tables: Sequence[Table], quiet: Sequence[Table], before: Baseline, now: Baseline) -> Changes:
        """Of quiet tables only: the others have sent something."""
        ids = {table.id: table.name for table in quiet}
        moved = self.database.perhaps_changed(list(ids), before["seconds"])
        if not moved:
            return Changes(dict.fromkeys(ids.values(), 0), {})
        events, unread = self.database.row_events(moved, _place(before), _place(now))
        counts = {name: events.get(id_, 0) for id_, name in ids.items()}
        messages = {name: f"{quantity(n, 'row event')} in the binlog since the last check" for name, n in counts.items() if n}
        return Changes(counts, messages, unread)

    def unsent(self, source: CapturedSource, connect: ConnectClient, before: Baseline | None) -> UnsentChanges:
        """What the log holds since the last look, and row images with gaps at which the connector has stopped."""
        kept, now = read_unsent_changes(source.name), self.database.place_and_clock()[0]
        since = kept.read_to or (_place(before) if before and "file" in before else now)
        log_restarted = now < since
        tables = {table.id: table.name for table in source.tables}
        scan = self.database.unsent_changes(list(tables), now if log_restarted else since, now)
        changes = [*self._less_keyed(source, scan.changes), *self._gaps_at_connector(source, connect)]
        by_name = [(tables[change.table], change) for change in changes]
        noted = remember(source.name, by_name, self.database.time_at, read_to=scan.read_to, restarted=log_restarted)
        return replace(noted, unread=scan.unread)

    def _less_keyed(self, source: CapturedSource, changes: Sequence[UnsentChange]) -> list[UnsentChange]:
        """Without those at one place of tables with a key, whose order their topic tells."""
        shared = {change.table for change in changes if change.kind == SAME_PLACE}
        suspects = [table.id for table in source.tables if table.id in shared and not table.keys]
        tables = self.database.tables_in_own_types(suspects) if suspects else {}
        keyless = {id_ for id_, table in tables.items() if not table.primary_key}
        return [change for change in changes if change.kind != SAME_PLACE or change.table in keyless]

    def _gaps_at_connector(self, source: CapturedSource, connect: ConnectClient) -> list[UnsentChange]:
        """Looked for where the connector has stopped: it fails at each such image (`inconsistent.schema.handling.mode`)."""
        name = names.connector_name(source)
        status = connect.status(name)
        if status is None or not status.failed:
            return []
        at = connector_position(connect, name)
        if at is None or at.file not in {file for file, _ in self.database.binlog()}:
            return []
        return self.database.changes_with_gaps([table.id for table in source.tables], at)

    def tables_outside_log(self, source: CapturedSource, config: Mapping[str, str]) -> dict[str, str]:
        """None: a binlog carries all tables."""
        return {}


def _place(baseline: Baseline) -> BinlogPosition:
    return BinlogPosition.of(baseline["file"], int(baseline["position"]))


def mariadb_witness(database: MariaDb) -> BinlogWitness:
    """Asks a MariaDB for its binlog."""
    return BinlogWitness(MariaDbActivity(database))


def mysql_witness(database: MySql) -> BinlogWitness:
    """The same of a MySQL server."""
    return BinlogWitness(MySqlActivity(database))


class PostgresWitness:
    """The changes of one source, witnessed by its server's counters.

    The counters move for rolled back changes too, so a table without events counts as changed only if one of these says that
    something was committed: no transaction of the database was rolled back meanwhile; its live rows have changed in number; a
    row of it is from a transaction since.
    """

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
