"""The kept log of a PostgreSQL (restore.kept_log): a second slot, from which the connector's is copied by a restore."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cdc_assets import names
from cdc_assets.failover.postgresql import drop_idle_slot
from cdc_assets.identity.memory import Known, Memory, SeenStarts
from cdc_assets.identity.postgresql import ends_in_core, look, offsets_at
from cdc_assets.kinds import expect
from cdc_assets.registry.models import Source
from cdc_assets.registry.postgresql import Database
from cdc_assets.resources.databases.postgresql_kept_log import PostgresSlots, slot_of_kept_log
from cdc_assets.resources.platform import Platform


class PostgresKeptLog:
    """By positions of the log in bytes (restore.kept_log.KeptLog)."""

    def __init__(self, source: Source) -> None:
        self._source, self._slots = source, PostgresSlots(expect(source.database, Database))
        self._connector_slot = names.slot_name(source)
        self._slot = slot_of_kept_log(self._connector_slot)

    def place(self) -> int | None:
        """Where the second slot is."""
        return self._slots.slot_place(self._slot)

    def connector_place(self) -> int | None:
        """Where the connector's slot is: Connect keeps an offset, and so what lies before it, before the slot moves there."""
        return self._slots.slot_place(self._connector_slot)

    def begin(self) -> None:
        """Beside a connector that runs: nobody waits."""
        self._slots.copy_slot(self._connector_slot, self._slot)

    def move_on(self, place: int) -> None:
        """The server decodes what lies between, and sends nothing."""
        self._slots.advance_slot(self._slot, place)

    def end(self) -> None:
        """The second slot is gone."""
        self._slots.drop_slot(self._slot)

    def offsets(self, offsets: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
        """Ahead of its slot the connector would leave out what lies between."""
        return tuple(offsets_at(offsets, self.place() or 0))

    def what_is_wrong(self, platform: Platform, offsets: tuple[Mapping[str, Any], ...], known: Known | None) -> str:
        """As of any offsets that a connector begins with."""
        found = look(platform, self._source, offsets, slot=self._slot, known=known).verdict
        return found.reason if found.kind == "other" else ""

    def hand_over(self, platform: Platform) -> None:
        """The connector's slot begins again at the second one's place. What the topics hold by now was before its start."""
        drop_idle_slot(self._source)
        self._slots.copy_slot(self._slot, self._connector_slot)
        memory = Memory.of(self._source.name)
        memory.seen = SeenStarts(stored=self.place() or 0, ends=ends_in_core(platform, self._source))
        memory.save()
