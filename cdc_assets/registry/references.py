"""References that keep addresses and secrets out of the registry: `{env: NAME}` and `{secret: name}`.

A connector or a mirror may declare settings that are not as we would render them. A value replaces ours, `null` leaves ours out,
and `(kept)` is whatever the running connector has. A secret's value, a foreign placeholder and whatever turns TLS off are
refused there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field

from cdc_assets.registry.field_types import Declared

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
    match = _PLACEHOLDER.search(value)
    if match is None or tells_secret(key) or (_MAY_REFER.search(key) and is_reference(value)):
        return ""
    return match[0]


def foreign_placeholders(config: Mapping[str, str]) -> dict[str, str]:
    """By the key of a connector's config, its foreign placeholder."""
    return {key: placeholder for key, value in config.items() if (placeholder := foreign_placeholder(key, value))}


def is_reference(value: str) -> bool:
    """Whether the value is one placeholder that a config provider resolves, and nothing else."""
    return bool(_REFERENCE.fullmatch(value))


def tells_secret(key: str) -> bool:
    """Whether the name of a connector's setting says that its value is a secret."""
    return bool(_TELLING.search(key))


class EnvRef(Declared):
    """A value taken from the environment (or from the running embedded stack) when it is needed."""

    env: str = Field(pattern=r"^[A-Z][A-Z0-9_]*$")
    default: str | None = None


class WorkerFile(Declared):
    """A line `key=…` of a properties file on the Connect worker."""

    file: str = Field(pattern=r"^/[A-Za-z0-9_./-]+$")
    key: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")

    @property
    def placeholder(self) -> str:
        """As Kafka's FileConfigProvider takes it."""
        return f"${{file:{self.file}:{self.key}}}"


class WorkerVariable(Declared):
    """A variable of the Connect worker's environment."""

    env: str = Field(pattern=r"^[A-Z][A-Z0-9_]*$")

    @property
    def placeholder(self) -> str:
        """As Kafka's EnvVarConfigProvider takes it."""
        return f"${{env:{self.env}}}"


class SecretRef(Declared):
    """The name of a secret. Its value is read where it is used, and never written down anywhere.

    `on_connect` says where the Connect worker finds it: `{file: /path, key: name}` or `{env: NAME}`. Without it, that is a file
    of the secret's name in the worker's folder of secrets. The worker's own providers must allow that path or name.
    """

    secret: str = Field(pattern=r"^[A-Za-z0-9_.-]+$", max_length=128)
    on_connect: WorkerFile | WorkerVariable | None = None


KEPT = "(kept)"
"""The value that the running connector has: for secrets, which no registry holds. One that is created anew gets ours."""
OtherSettings = dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.>-]{1,200}$")], str | None]
"""What `cdc adopt` found, and a person may write."""
_DECLARED_AT = {
    "name": "connector",
    "topic.prefix": "capture.topic_prefix",
    "slot.name": "capture.slot",
    "publication.name": "capture.publication",
    "database.server.id": "capture.server_id",
    "notification.sink.topic.name": "capture.notifications",
    "schema.history.internal.kafka.topic": "capture.schema_history",
    "signal.data.collection": "capture.signals",
    "source.cluster.alias": "mirror.alias",
}
_FIXED = ("connector.class", "database.hostname", "database.port", "database.user", "database.dbname")

# Values by which the server's certificate is verified no longer. SQL Server's `encrypt` is declared nowhere else.
# https://jdbc.postgresql.org/documentation/use/#ssl
_WITHOUT_TLS = {
    r"(database|driver)\.ssl[._]?mode": r"disabled?|allow|prefer(red)?|required?|trust",
    r"(database|driver)\.(ssl|useSSL|requireSSL|verifyServerCertificate)|mongodb\.ssl\.enabled": r"false|no|0|off|optional",
    r"(database|driver)\.trustServerCertificate|mongodb\.ssl\.invalid\.hostname\.allowed": r"true|yes|1|on",
    r"(database|driver)\.(sslfactory|sslhostnameverifier|socketFactory)": (
        r"(?!org\.postgresql\.ssl\.(DefaultJavaSSLFactory|LibPQFactory|jdbc4\.LibPQFactory)$).+"
    ),
}


def _takes_tls_away(key: str, value: str) -> bool:
    return any(
        re.fullmatch(keys, key, re.IGNORECASE) and re.fullmatch(values, value, re.IGNORECASE)
        for keys, values in _WITHOUT_TLS.items()
    )


def only_other(place: str) -> AfterValidator:
    """Refuse settings at `place` (`capture.settings`) that are declared elsewhere, turn TLS off, or hold a secret in clear.

    The error names the setting, and where or how it is declared.
    """

    def check(settings: Mapping[str, str | None]) -> Mapping[str, str | None]:
        for key, value in settings.items():
            if reason := _refusal(place, key, value):
                raise ValueError(f"{place}.{key}: {reason}")
        return settings

    return AfterValidator(check)


def _refusal(place: str, key: str, value: str | None) -> str:
    at = _DECLARED_AT.get(key, "")
    if at and (value is not None or key == "name"):
        owner = "" if "." in at else f"{place.partition('.')[0]}."
        return f"it is declared by {owner}{at}"
    if value and _takes_tls_away(key, value):
        return f"TLS is declared under database (sslmode), and {value} would take it away here"
    if key in _FIXED:
        return "it is declared under database, and cannot be another one here"
    if value and (foreign := foreign_placeholder(key, value)):
        return f"{foreign} is a placeholder, which Connect replaces: it may stand for a secret alone"
    if value and tells_secret(key) and value != KEPT and not is_reference(value):
        return (
            "a secret's value is not written here; give ${file:/path:key} as the worker resolves it, or "
            f"{KEPT}: as the running connector has it"
        )
    return ""
