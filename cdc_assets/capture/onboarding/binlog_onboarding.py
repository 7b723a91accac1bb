"""What the steps do for MariaDB and MySQL: nothing is published, but the connector must know how a table looks at the place
from which it goes on.

Columns of MySQL that nobody declares are the catalogue's, translated, and its signal table is one that the registry names.
"""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdc_assets.capture.connectors.connector_start import begin_anew
from cdc_assets.capture.connectors.temporary_connectors import definitions_config, temporary_config
from cdc_assets.capture.log_position import CaughtUpTimeoutError
from cdc_assets.capture.named_log_position import await_binlog
from cdc_assets.capture.onboarding.connector_steps import remove_beside
from cdc_assets.capture.onboarding.onboarding_state import Facts, ListedTables, Route, await_ended
from cdc_assets.capture.source_columns import columns_as_declared
from cdc_assets.clients import schema_history
from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.clients.databases.binlog_capture import BinlogCapture
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.databases.mariadb import MariaDbCapture
from cdc_assets.clients.databases.mysql import MySqlCapture, translate_table
from cdc_assets.registry import names
from cdc_assets.registry.databases import MariaDb, MySql
from cdc_assets.registry.errors import DatabaseError, RefusalError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import expect
from cdc_assets.registry.source_declaration import CapturedSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity

if TYPE_CHECKING:
    from cdc_assets.capture.onboarding.onboarding_state import OnboardingWork
    from cdc_assets.clients.connector_states import Obstacle

_ROUNDS = 5
"""How often the definitions are read while others change them."""
_DEFINITIONS_DEADLINE_SECONDS = 300.0
_CAUGHT_UP_DEADLINE_SECONDS = 3600.0
_LOOK_SECONDS = 60.0
_POLL_SECONDS = 0.2


class BinlogKind(ListedTables, ABC):
    """What onboarding does the same way in MariaDB and MySQL (`onboarding_state.OnboardingKind`).

    MariaDB's schema history holds the tables that it has captured (`store.only.captured.tables.ddl`), each as it was while
    captured. The first event of any other would fail the connector. MySQL's holds others too, and what it has of them is not
    relied on. So, before it goes on with old and new tables:

    1. M is where the binlog ends. A connector with a name and a history of its own writes down the new tables' definitions, as
       Debezium reads them; it reads no rows, takes no lock, and is removed. What it cannot parse stops nothing else.
    2. The running connector is brought to the end of the binlog, and stopped at P; Connect keeps its offset.
    3. Between M and P no statement may have named the tables, else again from 1. Then the definitions hold at P, and are
       written into its history there; what changes them later it reads in the binlog.

    Transactions are not waited for, but those that are prepared (XA): any other lies in the binlog as a whole, where it
    commits, and whoever reads a table after the stop sees those before P. Rows of a temporary connector carry the place at
    which they were read, under a lock.
    """

    refused: Mapping[Route, str] = {
        "blocking": "with the rows of a blocking snapshot Debezium's binlog connectors store an offset ahead of what they have "
        "streamed, and killed in that moment they would leave out changes of all tables"
    }
    not_by_git = "while its connector is stopped, its schema history is written to, which no commit can do"
    # A server that restarts leaves it reading the binlog, and each snapshot ends with SQL_EXCEPTION (MariaDB 3.5.0, MySQL 3.6.1).
    outlives_session = True

    @abstractmethod
    def database(self, source: CapturedSource) -> BinlogCapture:
        """The source's database, opened for capture."""

    def columns(self, work: OnboardingWork, found: Mapping[TableId, CatalogueTable]) -> Mapping[TableId, CatalogueTable]:
        """As the catalogue has them."""
        return found

    def why_uncountable(self, work: OnboardingWork) -> str:
        """Empty: rows can always be counted at a place of the binlog."""
        return ""

    def tables_to_define(self, work: OnboardingWork) -> tuple[Table, ...]:
        """The tables whose definitions the connector's history must have."""
        return work.tables

    def unready(self, work: OnboardingWork, ids: Sequence[TableId]) -> list[str]:
        """Nothing: a table that the role may not read is not there for it."""
        return []

    def halt(self, work: OnboardingWork, source: CapturedSource) -> float:
        """Stopped, and its history knows the tables that are taken in."""
        connect, name = work.core_connect, names.connector_name(source)
        if source is not work.after:
            remove_beside(work)
            began = time.monotonic()
            connect.stop(name)
            return began
        database, tables = self.database(source), self.tables_to_define(work)
        ids = [table.id for table in tables]
        for _ in range(_ROUNDS):
            since = database.place_now()
            definitions = _definitions(work, tables)
            connect.resume(name)
            _caught_up(work, database)
            began = time.monotonic()
            connect.stop(name)
            at = _offset(work)
            changed = database.definition_changes(ids, since, _place(at))
            if not changed:
                schema_history.define(work.core_kafka, names.schema_history_topic(source), definitions, at)
                return began
            work.say(f"a definition changed meanwhile: {changed[0][:200]}; reading again")
        connect.resume(name)
        raise RefusalError(
            f"{work.database.place}: the definition of {', '.join(work.state.tables)} changed in each of {_ROUNDS} attempts, "
            f"last by {changed[-1][:200]}; nothing was changed; when that has ended: cdc onboard {source.name} --resume"
        )

    def await_writers(self, work: OnboardingWork) -> Facts:
        """Only those that were prepared (XA): their changes lie in the binlog where they were prepared, perhaps before P."""
        return await_ended(work, self.database(work.declared).pending_transactions)

    def temporary_config(self, work: OnboardingWork) -> dict[str, str]:
        """The connector that reads the new tables once, beside the running one, and streams nothing."""
        return temporary_config(work.after, work.tables)

    def sees(self, snapshot: Any, origin: Mapping[str, Any]) -> bool:
        """By its place in the binlog."""
        return BinlogPosition.of(str(origin["file"]), int(origin["pos"])) < snapshot


def _definitions(work: OnboardingWork, tables: Sequence[Table]) -> list[dict[str, Any]]:
    """Of each table, as Debezium reads it now."""
    ids = [table.id for table in tables]
    connect, config = work.core_connect, definitions_config(work.after, tables)
    kafka, topic = work.core_kafka, names.temporary_schema_history_topic(work.after)
    remove_beside(work)
    begin_anew(connect, config)
    until = time.monotonic() + _DEFINITIONS_DEADLINE_SECONDS
    while len(definitions := schema_history.definitions(kafka, topic, ids)) < len(ids):
        status = connect.status(config["name"])
        if status is not None and status.failed:
            if status.obstacle is not None:
                raise _parse_error(work, status.obstacle)
            connect.wait_running(config["name"])
        if time.monotonic() > until:
            missing = ", ".join(str(i) for i in ids if i not in definitions)
            raise RefusalError(
                f"connector {config['name']} did not tell the definition of {missing} within "
                f"{_DEFINITIONS_DEADLINE_SECONDS:.0f} s; ./cdc logs core-connect says why; "
                f"cdc onboard {work.after.name} --resume, or --rollback"
            )
        time.sleep(_POLL_SECONDS)
    remove_beside(work)
    return [definitions[i] for i in ids]


def _parse_error(work: OnboardingWork, obstacle: Obstacle) -> RefusalError:
    shown = " ".join(obstacle.statement.split())
    return RefusalError(
        f"{work.database.place}: Debezium cannot read the definition of a table: {shown}: {obstacle.why}; nothing was changed; "
        f"write that clause in another way (ALTER TABLE), then {work.resume}; or leave the table out: "
        f"cdc onboard {work.after.name} --rollback, cdc offboard {work.after.name} TABLE"
    )


def _caught_up(work: OnboardingWork, database: BinlogCapture) -> None:
    """The connector has stored an offset behind all that is committed now."""
    until = time.monotonic() + _CAUGHT_UP_DEADLINE_SECONDS
    connect = work.core_connect
    while True:
        # One that has failed, or fails again after a restart, is not waited for.
        connect.wait_running(names.connector_name(work.after))
        try:
            soon = min(until, time.monotonic() + _LOOK_SECONDS)
            await_binlog(work.after, f"position-{uuid.uuid4()}", database, connect, soon)
            return
        except CaughtUpTimeoutError:
            if time.monotonic() > until:
                raise


def _offset(work: OnboardingWork) -> dict[str, Any]:
    name = names.connector_name(work.after)
    entries = [entry for entry in work.core_connect.offsets(name) if entry.get("offset")]
    if len(entries) != 1:
        raise RefusalError(f"connector {name} has {quantity(len(entries), 'stored offset')}, expected 1; cdc offsets get {name}")
    return entries[0]


def _place(entry: Mapping[str, Any]) -> BinlogPosition:
    return BinlogPosition.of(str(entry["offset"]["file"]), int(entry["offset"]["pos"]))


class MariaDbKind(BinlogKind):
    """Onboarding of tables in MariaDB (`onboarding_state.OnboardingKind`)."""

    def database(self, source: CapturedSource) -> MariaDbCapture:
        """The source's MariaDB, opened for capture."""
        return MariaDbCapture(expect(source.database, MariaDb))


class MySqlKind(BinlogKind):
    """Onboarding of tables in MySQL (`onboarding_state.OnboardingKind`)."""

    def database(self, source: CapturedSource) -> MySqlCapture:
        """The source's MySQL, opened for capture."""
        return MySqlCapture(expect(source.database, MySql))

    def columns(self, work: OnboardingWork, found: Mapping[TableId, CatalogueTable]) -> Mapping[TableId, CatalogueTable]:
        """As they are declared, else with PostgreSQL's types."""
        return columns_as_declared(work.after, {id_: translate_table(table) for id_, table in found.items()})

    def why_uncountable(self, work: OnboardingWork) -> str:
        """Not where the server must not be locked: then no place of the binlog is that of a count."""
        return "" if self.database(work.declared).locks else "snapshot_locking is none, and without a lock no count has a place"

    def tables_to_define(self, work: OnboardingWork) -> tuple[Table, ...]:
        """The signal table's as well, which the running connector may not have had."""
        signals = names.signal_declaration(work.after)
        return (*work.tables, Table(name=signals)) if signals and work.state.route == "incremental" else work.tables

    def unready(self, work: OnboardingWork, ids: Sequence[TableId]) -> list[str]:
        """What must be declared before, and what the role must be granted besides what capture needs."""
        database = self.database(work.declared)
        catalogue = database.tables(ids)
        findings = [problem for table in work.tables for problem in _declaration_problems(table, catalogue.get(table.id))]
        if work.state.route == "incremental" and names.signal_declaration(work.declared) is None:
            table = names.signal_table(work.declared)
            findings.append(f"no signal table is declared; declare one: reconciliation: {{signals: {table}}}; it is made then")
        if work.state.route == "temporary" and not database.locks:
            findings.append(
                "snapshot_locking is none: rows of a temporary connector would carry a place of the binlog that is not theirs; "
                "take route incremental"
            )
        try:
            database.pending_transactions()
        except DatabaseError as error:
            findings.append(
                f"{error}; prepared transactions must be seen: GRANT XA_RECOVER_ADMIN ON *.* TO '{database.user}'@'%'"
            )
        return findings


def _declaration_problems(table: Table, catalogued: CatalogueTable | None) -> Iterator[str]:
    columns = {c.name: c for c in catalogued.columns} if catalogued else {}
    missing = [name for name in table.declared_columns if catalogued and name not in columns]
    if missing:
        yield f"{table.name} has no column {', '.join(missing)}, which the registry declares; it has: {', '.join(columns)}"
    nullable = [key for key in table.keys or () if key in columns and columns[key].nullable]
    if nullable:
        yield f"{table.name}: keys that may be NULL: {', '.join(nullable)}; declare other keys, or make them NOT NULL"
