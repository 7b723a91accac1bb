"""What every model of the registry is built on."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field

SOURCE_NAME = r"[a-z][a-z0-9_]{0,39}"
"""How a source may be called; it is part of keys, paths and topics."""
ConnectorName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._>-]{0,199}$")]
TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]


class Declared(BaseModel):
    """Frozen, and an unknown key is an error: it is most likely a typo."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class DatabaseKind(Declared):
    """Where a source database is. What its kind can do is in the table of kinds (cdc_assets.kinds)."""

    ADDRESS: ClassVar[tuple[str, ...]] = ("host", "port")
    """The keys that say where it is, in order."""

    kind: str

    def key_refusal(self, keys: tuple[str, ...]) -> str:
        """Why a table's rows cannot be known by these columns; empty where they can."""
        return ""

    def name_refusal(self, name: str) -> str:
        """Why the server or Debezium's own SQL cannot name a table or schema called so; empty where they can."""
        return ""

    @property
    def tells_snapshots(self) -> bool:
        """Whether the server may tell which place of its log a snapshot sees, where its kind can."""
        return True

    @property
    def topic_scope(self) -> tuple[str, ...]:
        """What the connector's topics have before schema and table."""
        return ()

    @property
    def signals_take_patterns(self) -> bool:
        """Whether a signal names tables by a regular expression, whatever the connector has seen so far."""
        return True

    @property
    def signal_scope(self) -> tuple[str, ...]:
        """What signals have before schema and table."""
        return ()
