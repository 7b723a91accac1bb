"""SQL Server, Oracle and MongoDB: the connector meets a new table by its list alone, and keeps or needs no place of ours.

Not run against a server. What is relied on was read in Debezium 3.6.1:

* A table that is new in the list is taken up at the connector's stored place. Its definition is read from the server then, and
  written into the schema history: SqlServerStreamingChangeEventSource.getChangeTablesToQuery,
  AbstractLogMinerStreamingChangeEventSource.dispatchSchemaChangeEventAndGetTableForNewConfiguredTable. MongoDB has none.
* Rows of a first snapshot carry the place at which it began, and are read after that: whatever lies below it is in them. What
  they hold beyond it is streamed again, above them (SqlServerSnapshotChangeEventSource.determineSnapshotOffset; Oracle reads as
  of that SCN; MongoDbSnapshotChangeEventSource.initSnapshotStartOffsets).
* An incremental snapshot needs a signal table that the connector captures:
  https://debezium.io/documentation/reference/3.6/configuration/signalling.html
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from cdc_assets import names, settings
from cdc_assets.connectors.beside import initial_only_config
from cdc_assets.onboarding.kinds.listed_tables import ListedTables
from cdc_assets.onboarding.state import Facts, Route
from cdc_assets.onboarding.temporary_connector import remove_beside
from cdc_assets.preflight import by_driver
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import CapturedSource
from cdc_assets.resources.databases.catalogue import CatalogueTable
from cdc_assets.resources.rows.signalled import SignalledDatabase
from cdc_assets.tables.source_catalogue import columns_as_declared

if TYPE_CHECKING:
    from cdc_assets.onboarding.work import OnboardingWork
    from cdc_assets.preflight.finding import Finding
    from cdc_assets.registry.unasked_source import UnaskedSource

# Told by preflight of each table that is not there; onboarding says it in its own words.
_NOT_THERE = "table"


class SignalledKind(ListedTables, ABC):
    """What onboarding does the same way in SQL Server, Oracle and MongoDB (`work.OnboardingKind`)."""

    refused: Mapping[Route, str] = {
        "blocking": "nobody has looked at the offset that its connector stores with the rows of a blocking snapshot, and "
        "MariaDB's stores one ahead of what it has streamed"
    }
    not_by_git = "nobody has tried its connector by commits"
    # Whether it is so has not been tried; a connector that streams on is restarted once for nothing.
    outlives_session = True

    @abstractmethod
    def ask(self) -> by_driver.Ask:
        """The questions of preflight to such a server."""

    @abstractmethod
    def signal_statements(self, table: TableId, user: str) -> str:
        """What makes the signal table, and lets the connector capture it and ours write to it."""

    def database(self, source: CapturedSource) -> SignalledDatabase:
        """The source's database, as signals are written to it."""
        return SignalledDatabase(source.database)

    def columns(self, work: OnboardingWork, found: Mapping[TableId, CatalogueTable]) -> Mapping[TableId, CatalogueTable]:
        """As they are declared, else as they are translated."""
        return columns_as_declared(work.after, found)

    def unready(self, work: OnboardingWork, ids: Sequence[TableId]) -> list[str]:
        """What preflight says of the new tables and of the signal table, and what the signal table lacks."""
        alone = cast("UnaskedSource", work.after.model_copy(update={"tables": work.tables}))
        found = [*by_driver.findings(work.platform, alone, self.ask())]
        told = [_sentence(finding) for finding in found if finding.level == "fail" and finding.check != _NOT_THERE]
        return [*told, *self._signal_findings(work)]

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
        return str(settings.resolve(work.declared.database.user))  # type: ignore[attr-defined]

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
