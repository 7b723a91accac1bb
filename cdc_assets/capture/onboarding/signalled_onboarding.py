"""What the steps do for SQL Server, Oracle and MongoDB: the connector meets a new table by its list alone, and keeps or
needs no place of ours.

SQL Server needs a capture instance of each table before, Oracle logs all columns and open transactions are waited for,
MongoDB needs pre-images where they are declared.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from cdc_assets.capture.connectors.temporary_connectors import initial_only_config
from cdc_assets.capture.onboarding.connector_steps import remove_beside
from cdc_assets.capture.onboarding.onboarding_state import Facts, ListedTables, Route, await_ended
from cdc_assets.capture.preflight import driver_inspection
from cdc_assets.capture.preflight.mongodb_rules import ask_mongodb
from cdc_assets.capture.preflight.oracle_rules import ORACLE_RULES
from cdc_assets.capture.preflight.sqlserver_rules import SQLSERVER_RULES
from cdc_assets.capture.source_columns import columns_as_declared
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.clients.databases.signalled_database import MongoDbSignals, OracleSignals, SignalledDatabase, SqlServerSignals
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import CapturedSource
from spark.table.identifiers import double_quote, quote

if TYPE_CHECKING:
    from cdc_assets.capture.onboarding.onboarding_state import OnboardingWork
    from cdc_assets.capture.preflight.inspection import Finding
    from cdc_assets.registry.source_declaration import UnaskedSource

# Told by preflight of each table that is not there; onboarding says it in its own words.
_NOT_THERE = "table"


class SignalledKind(ListedTables, ABC):
    """What onboarding does the same way in SQL Server, Oracle and MongoDB (`onboarding_state.OnboardingKind`).

    Not run against a server. What is relied on was read in Debezium 3.6.1:

    * A table that is new in the list is taken up at the connector's stored place. Its definition is read from the server then,
      and written into the schema history: SqlServerStreamingChangeEventSource.getChangeTablesToQuery,
      AbstractLogMinerStreamingChangeEventSource.dispatchSchemaChangeEventAndGetTableForNewConfiguredTable. MongoDB has none.
    * Rows of a first snapshot carry the place at which it began, and are read after that: whatever lies below it is in them.
      What they hold beyond it is streamed again, above them (SqlServerSnapshotChangeEventSource.determineSnapshotOffset; Oracle
      reads as of that SCN; MongoDbSnapshotChangeEventSource.initSnapshotStartOffsets).
    * An incremental snapshot needs a signal table that the connector captures:
      https://debezium.io/documentation/reference/3.6/configuration/signalling.html
    """

    refused: Mapping[Route, str] = {
        "blocking": "nobody has looked at the offset that its connector stores with the rows of a blocking snapshot, and "
        "MariaDB's stores one ahead of what it has streamed"
    }
    not_by_git = "nobody has tried its connector by commits"
    # Whether it is so has not been tried; a connector that streams on is restarted once for nothing.
    outlives_session = True
    signals: ClassVar[type[SignalledDatabase]]

    @abstractmethod
    def ask(self) -> driver_inspection.Ask:
        """The questions of preflight to such a server."""

    @abstractmethod
    def signal_statements(self, table: TableId, user: str) -> str:
        """What makes the signal table, and lets the connector capture it and ours write to it."""

    def database(self, source: CapturedSource) -> SignalledDatabase:
        """The source's database, as signals are written to it."""
        return self.signals(source.database)

    def columns(self, work: OnboardingWork, found: Mapping[TableId, CatalogueTable]) -> Mapping[TableId, CatalogueTable]:
        """As they are declared, else as they are translated."""
        return columns_as_declared(work.after, found)

    def unready(self, work: OnboardingWork, ids: Sequence[TableId]) -> list[str]:
        """What preflight says of the new tables and of the signal table, and what the signal table lacks."""
        alone = cast("UnaskedSource", work.after.model_copy(update={"tables": work.tables}))
        findings = [*driver_inspection.findings(Chain(work.platform, alone), self.ask())]
        sentences = [_sentence(finding) for finding in findings if finding.level == "fail" and finding.check != _NOT_THERE]
        return [*sentences, *self._signal_findings(work)]

    def _signal_findings(self, work: OnboardingWork) -> Iterator[str]:
        if work.state.route != "incremental":
            return
        declared, table = work.declared.reconciliation.signals, names.signal_table(work.declared)
        if declared is None:
            yield (
                f"no signal table is declared; make one ({self.signal_statements(table, self._user(work))}) and declare it: "
                f"reconciliation: {{signals: {table}}}"
            )
        elif table not in work.database.tables([table]):
            yield f"there is no signal table {table}; run {self.signal_statements(table, self._user(work))}"

    def _user(self, work: OnboardingWork) -> str:
        return str(settings.resolve(cast("UnaskedSource", work.declared).database.user))

    def why_uncountable(self, work: OnboardingWork) -> str:
        """Always: no place of its log is asked."""
        return f"kind {work.declared.database.kind} is not asked for the place in its log that a count has"

    def halt(self, work: OnboardingWork, source: CapturedSource) -> float:
        """Stop the running connector; answers when that began (time.monotonic)."""
        if source is not work.after:
            remove_beside(work)
        began = time.monotonic()
        work.core_connect.stop(names.connector_name(source))
        return began

    def await_writers(self, work: OnboardingWork) -> Facts:
        """Nobody is waited for, where a transaction's changes come with its commit."""
        return {"waited_for": 0}

    def temporary_config(self, work: OnboardingWork) -> dict[str, str]:
        """The connector that reads the new tables once, beside the running one, and streams nothing."""
        return initial_only_config(work.after, work.tables)

    def sees(self, snapshot: Any, origin: Mapping[str, Any]) -> bool:
        """Nothing is counted, so every change is seen."""
        return True


def _sentence(finding: Finding) -> str:
    return f"{finding.subject} {finding.message}" + (f": {finding.mend}" if finding.mend else "")


class SqlServerKind(SignalledKind):
    """Onboarding of tables in SQL Server (`onboarding_state.OnboardingKind`).

    Each table, the signal table too, needs a capture instance before; preflight names the statement.

    `sys.sp_cdc_enable_table` takes a lock that no writer's transaction outlives, so nobody wrote before and commits later.
    https://debezium.io/documentation/reference/3.6/connectors/sqlserver.html#sqlserver-incremental-snapshots
    """

    signals = SqlServerSignals

    def ask(self) -> driver_inspection.Ask:
        """Change data capture of the database and of each table."""
        return SQLSERVER_RULES.ask

    def signal_statements(self, table: TableId, user: str) -> str:
        """Made, and captured: watermarks are rows of it."""
        name = quote(*table, sign="[")
        schema, short = (name.replace("'", "''") for name in table)
        return (
            f"CREATE TABLE {name} (id varchar(100) PRIMARY KEY, type varchar(100) NOT NULL, data varchar(max)); "
            f"EXEC sys.sp_cdc_enable_table @source_schema = N'{schema}', @source_name = N'{short}', @role_name = NULL; "
            f"GRANT SELECT, INSERT, DELETE ON {name} TO {quote(user, sign='[')}"
        )


_OPEN = "SELECT xidusn, xidslot, xidsqn, start_time FROM v$transaction"


class OracleKind(SignalledKind):
    """Onboarding of tables in Oracle (`onboarding_state.OnboardingKind`).

    Each table logs all its columns (preflight names the statement), and transactions that were open are waited for.

    The connector mines from a place on, and a transaction that wrote to a table before may commit behind it. Debezium starts at
    the oldest transaction that it knows to be open; that it knows all of them nobody has tried. So they are waited for, before
    any row is read: what they wrote is then in the rows. https://debezium.io/documentation/reference/3.6/connectors/oracle.html
    """

    signals = OracleSignals

    def ask(self) -> driver_inspection.Ask:
        """Archived logs, and supplemental logging of each table."""
        return ORACLE_RULES.ask

    def signal_statements(self, table: TableId, user: str) -> str:
        """Made, and logged with all its columns."""
        name = double_quote(*table)
        return (
            f'CREATE TABLE {name} ("id" VARCHAR2(100) PRIMARY KEY, "type" VARCHAR2(100) NOT NULL, "data" VARCHAR2(4000)); '
            f"ALTER TABLE {name} ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS; "
            f"GRANT SELECT, INSERT, DELETE ON {name} TO {user}"
        )

    def unready(self, work: OnboardingWork, ids: Sequence[TableId]) -> list[str]:
        """And whether open transactions can be seen."""
        unready = super().unready(work, ids)
        try:
            self.open_transactions(work.declared)
        except DatabaseError as error:
            unready.append(f"{error}; open transactions must be seen: GRANT SELECT ON V_$TRANSACTION TO {self._user(work)}")
        return unready

    def await_writers(self, work: OnboardingWork) -> Facts:
        """Wait for the transactions that are open now."""
        return await_ended(work, lambda: self.open_transactions(work.declared))

    def open_transactions(self, source: CapturedSource) -> dict[str, str]:
        """By their ids; whose they are is not asked. Raises DatabaseError: the role may not see them."""
        with self.database(source).connection() as cursor:
            cursor.execute(_OPEN)
            return {f"{a}.{b}.{c}": f"a transaction open since {start} (xid {a}.{b}.{c})" for a, b, c, start in cursor.fetchall()}


class MongoDbKind(SignalledKind):
    """Onboarding of collections in MongoDB (`onboarding_state.OnboardingKind`).

    Nothing is enabled per collection but pre-images, if they are declared; signals are documents of a collection.

    A change stream has a transaction's changes at its commit. The connector writes watermarks into the signal collection, so
    its role needs readWrite there:
    https://debezium.io/documentation/reference/3.6/connectors/mongodb.html#debezium-mongodb-incremental-snapshots
    """

    signals = MongoDbSignals

    def ask(self) -> driver_inspection.Ask:
        """The replica set, its oplog, and the collections' images."""
        return ask_mongodb

    def signal_statements(self, table: TableId, user: str) -> str:
        """Made, and the role may write to it."""
        schema, name, role = (json.dumps(name, ensure_ascii=False) for name in (*table, user))
        return (
            f"db.getSiblingDB({schema}).createCollection({name}); "
            f'db.getSiblingDB("admin").grantRolesToUser({role}, [{{role: "readWrite", db: {schema}}}])'
        )
