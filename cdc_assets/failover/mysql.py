"""What a new epoch does at a MySQL server: nothing is kept there for the connector, and its uuid becomes the known one."""

from __future__ import annotations

from cdc_assets.identity.memory import Memory
from cdc_assets.identity.mysql import MySqlFacts, facts_of, remember
from cdc_assets.kinds import expect
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.mysql import MySql
from cdc_assets.resources.databases.mysql import MySqlDatabase
from cdc_assets.resources.platform import Platform


class MySqlEpoch:
    """A new epoch at a MySQL server (opening.ServerEpoch)."""

    def __init__(self, source: CapturedSource) -> None:
        self._database = MySqlDatabase(expect(source.database, MySql))

    def forget(self) -> None:
        """Nothing keeps the connector's place there."""

    def facts(self) -> MySqlFacts:
        """Its uuid and its binlog's files."""
        return facts_of(self._database, "")

    def adopt(self, platform: Platform, memory: Memory, facts: MySqlFacts) -> None:
        """Remember its uuid as the known one."""
        remember(memory, facts.uuid)
