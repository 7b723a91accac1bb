"""Oracle: each table logs all its columns (preflight names the statement), and transactions that were open are waited for.

The connector mines from a place on, and a transaction that wrote to a table before may commit behind it. Debezium starts at the
oldest transaction that it knows to be open; that it knows all of them nobody has tried. So they are waited for, before any row is
read: what they wrote is then in the rows. https://debezium.io/documentation/reference/3.6/connectors/oracle.html
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cdc_assets.errors import DatabaseError
from cdc_assets.onboarding.kinds.signalled import SignalledKind
from cdc_assets.onboarding.kinds.waiting import await_ended
from cdc_assets.onboarding.state import Facts
from cdc_assets.preflight import by_driver
from cdc_assets.preflight.oracle_inspection import RULES
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import CapturedSource
from spark.delta.identifiers import double_quote

if TYPE_CHECKING:
    from cdc_assets.onboarding.work import OnboardingWork

_OPEN = "SELECT xidusn, xidslot, xidsqn, start_time FROM v$transaction"


class OracleKind(SignalledKind):
    """Onboarding of tables in Oracle (`work.OnboardingKind`)."""

    def ask(self) -> by_driver.Ask:
        """Archived logs, and supplemental logging of each table."""
        return RULES.ask

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
        found = super().unready(work, ids)
        try:
            self.open_transactions(work.declared)
        except DatabaseError as error:
            found.append(f"{error}; open transactions must be seen: GRANT SELECT ON V_$TRANSACTION TO {self._user(work)}")
        return found

    def await_writers(self, work: OnboardingWork) -> Facts:
        """Wait for the transactions that are open now."""
        return await_ended(work, lambda: self.open_transactions(work.declared))

    def open_transactions(self, source: CapturedSource) -> dict[str, str]:
        """By their ids; whose they are is not asked.

        Raises:
            DatabaseError: the role may not see them.
        """
        with self.database(source).connection() as cursor:
            cursor.execute(_OPEN)
            return {f"{a}.{b}.{c}": f"a transaction open since {start} (xid {a}.{b}.{c})" for a, b, c, start in cursor.fetchall()}
