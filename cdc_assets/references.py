"""References that keep addresses and secrets out of the registry: `{env: NAME}` and `{secret: name}`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

_REFERENCE = re.compile(r"\$\{[A-Za-z0-9_.-]+:[^${}]*\}")
_TELLING = re.compile(
    r"passw(or)?d|passphrase|secret|credential|token|jaas|user\.info|connection\.string"
    r"|(api|access|private|account|shared|encryption|signing)[._-]?key|keystore\.key|\bsas\b",
    re.IGNORECASE,
)


# As Kafka's ConfigTransformer finds them, anywhere in a value.
# https://github.com/apache/kafka/blob/trunk/clients/src/main/java/org/apache/kafka/common/config/ConfigTransformer.java
_PLACEHOLDER = re.compile(r"\$\{[^}]*?:[^}]*?\}")
# Settings of clients that are taken from a file of the worker's as a whole, and a login's name.
_MAY_REFER = re.compile(
    r"(^|\.)(ssl|sasl)\.|^(source|target)\.cluster\.|^schema\.history\.internal\.(consumer|producer)\."
    r"|bootstrap\.servers$|\.url$|\.user$"
)


def foreign_placeholder(key: str, value: str) -> str:
    """The placeholder that a setting must not have, which Connect would replace by a file, a variable or a secret; else empty.

    A name of a table or a database may look like one. A secret's setting may have one inside of it, a client's as a whole.
    """
    found = _PLACEHOLDER.search(value)
    if found is None or tells_secret(key) or (_MAY_REFER.search(key) and is_reference(value)):
        return ""
    return found[0]


def foreign_placeholders(config: Mapping[str, str]) -> dict[str, str]:
    """By the key of a connector's config, its foreign placeholder."""
    return {key: found for key, value in config.items() if (found := foreign_placeholder(key, value))}


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
