"""What every model of the registry is built on."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Declared(BaseModel):
    """Frozen, and an unknown key is an error: it is most likely a typo."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class DatabaseKind(Declared):
    """Where a source database is, and of which kind."""

    kind: str
