"""References that keep addresses and secrets out of the registry: `{env: NAME}` and `{secret: name}`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class EnvRef(BaseModel):
    """A value taken from the environment (or from the running embedded stack) when it is needed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    env: str = Field(pattern=r"^[A-Z][A-Z0-9_]*$")
    default: str | None = None


class SecretRef(BaseModel):
    """The name of a secret; its value is read where it is used and never written down anywhere."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    secret: str = Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=128)
