"""Where a MariaDB server is. A table is named `database.table`: one source may hold tables of several databases."""

from __future__ import annotations

from typing import Literal

from cdc_assets.references import EnvRef, SecretRef
from cdc_assets.registry.tls import EncryptedBinlog


class MariaDb(EncryptedBinlog):
    """Host, port and user may be `{env: NAME}`. The password is a secret.

    `sslmode: trust` encrypts and believes any certificate. `verify-ca` and `verify-full` do not. The server must write a
    row binlog (docs/reference/mariadb.md). Without `sslmode` a server elsewhere must show a certificate that can be
    verified, by those who are in `sslrootcert`, or by the system's (docs/how-to/security.md).
    `truststore` has them for the connector, which reads no PEM.
    """

    HERE, VERIFIED, UNVERIFIED = "disable", ("verify-ca", "verify-full"), ("trust", "disable")
    SETTINGS, BINLOG, TELLS_PLACE = frozenset({"server_id"}), "MariaDB", True

    kind: Literal["mariadb"]
    host: str | EnvRef
    port: int | EnvRef = 3306
    user: str | EnvRef
    password: SecretRef
    sslmode: Literal["disable", "trust", "verify-ca", "verify-full"] | None = None
