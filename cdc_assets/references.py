"""References that keep addresses and secrets out of the registry: `{env: NAME}` and `{secret: name}`."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field

_REFERENCE = re.compile(r"\$\{[A-Za-z0-9_.-]+:[^${}]*\}")
_TELLING = re.compile(
    r"passw(or)?d|passphrase|secret|credential|token|jaas|user\.info|connection\.string"
    r"|(api|access|private|account|shared|encryption|signing)[._-]?key|keystore\.key|\bsas\b",
    re.IGNORECASE,
)


def is_reference(value: str) -> bool:
    """Whether the value is one placeholder that a config provider resolves, and nothing else."""
    return bool(_REFERENCE.fullmatch(value))


def tells_secret(key: str) -> bool:
    """Whether the name of a connector's setting says that its value is a secret."""
    return bool(_TELLING.search(key))


class EnvRef(BaseModel):
    """A value taken from the environment (or from the running embedded stack) when it is needed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    env: str = Field(pattern=r"^[A-Z][A-Z0-9_]*$")
    default: str | None = None


class WorkerFile(BaseModel):
    """A line `key=…` of a properties file on the Connect worker."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = Field(pattern=r"^/[A-Za-z0-9_./-]+$")
    key: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")

    @property
    def placeholder(self) -> str:
        """As Kafka's FileConfigProvider takes it."""
        return f"${{file:{self.file}:{self.key}}}"


class WorkerVariable(BaseModel):
    """A variable of the Connect worker's environment."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    env: str = Field(pattern=r"^[A-Z][A-Z0-9_]*$")

    @property
    def placeholder(self) -> str:
        """As Kafka's EnvVarConfigProvider takes it."""
        return f"${{env:{self.env}}}"


class SecretRef(BaseModel):
    """The name of a secret. Its value is read where it is used, and never written down anywhere.

    `on_connect` says where the Connect worker finds it: `{file: /path, key: name}` or `{env: NAME}`. Without it, that is a file
    of the secret's name in the worker's folder of secrets. The worker's own providers must allow that path or name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    secret: str = Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=128)
    on_connect: WorkerFile | WorkerVariable | None = None
