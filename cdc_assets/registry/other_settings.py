"""Settings of a connector or a mirror that are not as we would render them: what `cdc adopt` found, and a person may write.

A value replaces ours, `null` leaves ours out, and `(kept)` is whatever the running connector has: it is for secrets, which
no registry holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from cdc_assets.references import foreign_placeholder, is_reference, tells_secret

KEPT = "(kept)"
"""The value that the running connector has. One that is created anew gets ours."""
OtherSettings = dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.>-]{1,200}$")], str | None]
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


def refuse_settings(place: str, settings: Mapping[str, str | None]) -> None:
    """Settings that are declared at a place of their own, and secrets.

    Raises:
        ValueError: naming the setting, and where or how it is declared.
    """
    for key, value in settings.items():
        at = _DECLARED_AT.get(key, "")
        if at and (value is not None or key == "name"):
            owner = "" if "." in at else f"{place.partition('.')[0]}."
            raise ValueError(f"{place}.{key}: it is declared by {owner}{at}")
        if value and _takes_tls_away(key, value):
            raise ValueError(f"{place}.{key}: TLS is declared under database (sslmode), and {value} would take it away here")
        if key in _FIXED:
            raise ValueError(f"{place}.{key}: it is declared under database, and cannot be another one here")
        if value and (foreign := foreign_placeholder(key, value)):
            raise ValueError(
                f"{place}.{key}: {foreign} is a placeholder, which Connect replaces: it may stand for a secret alone"
            )
        if value and tells_secret(key) and value != KEPT and not is_reference(value):
            raise ValueError(
                f"{place}.{key}: a secret's value is not written here; give ${{file:/path:key}} as the worker resolves it, or "
                f"{KEPT}: as the running connector has it"
            )
