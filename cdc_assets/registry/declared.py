"""What every model of the registry is built on."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Declared(BaseModel):
    """Frozen, and an unknown key is an error: it is most likely a typo."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class DatabaseKind(Declared):
    """Where a source database is, and of which kind."""

    SETTINGS: ClassVar[frozenset[str]] = frozenset()
    """Keys of `capture` that are not for every kind, and are for this one."""
    BINLOG: ClassVar[str] = ""
    """Whose binlog the connector reads, in words; empty for a kind without one."""
    HAS_SLOT: ClassVar[bool] = False
    """A slot and a publication of the server keep the connector's place and its tables; its own rows can be anchored there."""
    TELLS_PLACE: ClassVar[bool] = False
    """The server itself is asked for its place and for rows: no marker, signals or rhythm are declared for it."""
    HAS_SCHEMA_HISTORY: ClassVar[bool] = True
    """The connector keeps the tables' definitions in a topic."""
    ENVELOPE: ClassVar[str] = ""
    """The only form of the connector's records; empty where `capture.envelope` chooses."""

    kind: str

    def key_refusal(self, keys: tuple[str, ...]) -> str:
        """Why a table's rows cannot be known by these columns; empty where they can."""
        return ""
