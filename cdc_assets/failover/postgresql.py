"""A new epoch at a PostgreSQL: its slot is dropped, its witness and the starts of its connector are noted anew."""

from __future__ import annotations

import time

from cdc_assets import names
from cdc_assets.errors import DatabaseError
from cdc_assets.identity.facts import IncarnationDatabase, ServerFacts
from cdc_assets.identity.memory import Memory, SeenStarts
from cdc_assets.identity.postgresql import ends_in_core, remember
from cdc_assets.identity.starts import StartsTable
from cdc_assets.kinds import expect
from cdc_assets.registry.models import Source
from cdc_assets.registry.postgresql import Database
from cdc_assets.resources.databases.postgresql_capture import PostgresCapture
from cdc_assets.resources.databases.postgresql_kept_log import slot_of_kept_log
from cdc_assets.resources.platform import Platform

_SLOT_DEADLINE_SECONDS = 60.0


class PostgresEpoch:
    """A new epoch at a PostgreSQL server (opening.ServerEpoch)."""

    def __init__(self, source: Source) -> None:
        self._source, self._database = source, expect(source.database, Database)

    def forget(self) -> None:
        """The slot is gone, and so is the log that was kept for a backup (`backup.keep_log`)."""
        drop_idle_slot(self._source)
        PostgresCapture(self._database).drop_slot(slot_of_kept_log(names.slot_name(self._source)))

    def facts(self) -> ServerFacts:
        """Identifier, timeline, end of the log, slot and witness."""
        return self._incarnation.facts(names.slot_name(self._source), names.witness_table(self._source))

    def adopt(self, platform: Platform, memory: Memory, facts: ServerFacts) -> None:
        """What the connector has noted until now is answered by the reading."""
        starts, table = StartsTable(self._database), names.starts_table(self._source)
        memory.seen = SeenStarts(ends=ends_in_core(platform, self._source))
        starts.forget(table, starts.read(table))
        remember(self._incarnation, self._source, memory, facts, opens_epoch=True)

    @property
    def _incarnation(self) -> IncarnationDatabase:
        return IncarnationDatabase(self._database)


def drop_idle_slot(source: Source) -> None:
    """Drop the connector's slot, once nobody reads from it.

    Raises:
        DatabaseError: somebody still does, after a minute.
    """
    database, until = PostgresCapture(expect(source.database, Database)), time.monotonic() + _SLOT_DEADLINE_SECONDS
    while True:
        try:
            database.drop_slot(names.slot_name(source))
            return
        except DatabaseError:
            # The walsender of a stopped task ends a moment later.
            if time.monotonic() > until:
                raise
            time.sleep(0.5)
