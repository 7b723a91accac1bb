"""Where a MariaDB server is. A table is named `database.table`: one source may hold tables of several databases."""

from __future__ import annotations

from typing import Literal

from cdc_assets.references import EnvRef, SecretRef
from cdc_assets.registry.addresses import Host
from cdc_assets.registry.tls import EncryptedBinlog

_LONGEST = 64


class MariaDb(EncryptedBinlog):
    """Host, port and user may be `{env: NAME}`. The password is a secret.

    `sslmode: trust` encrypts and believes any certificate. `verify-ca` and `verify-full` do not. The server must write a
    row binlog (docs/reference/mariadb.md). Without `sslmode` a server elsewhere must show a certificate that can be
    verified, by those who are in `sslrootcert`, or by the system's (docs/how-to/security.md).
    `truststore` has them for the connector, which reads no PEM.
    """

    HERE, VERIFIED, UNVERIFIED = "disable", ("verify-ca", "verify-full"), ("trust", "disable")

    kind: Literal["mariadb"]
    host: Host | EnvRef
    port: int | EnvRef = 3306
    user: str | EnvRef
    password: SecretRef
    sslmode: Literal["disable", "trust", "verify-ca", "verify-full"] | None = None

    def name_refusal(self, name: str) -> str:
        """What the server itself takes for no name (https://mariadb.com/kb/en/identifier-names/), and what Debezium unquotes.

        It reads a table called `all` with its backticks as one called all, fails, and reads no table of the source (3.5).
        """
        if name.startswith("`") or name.endswith("`"):
            return "Debezium cannot read a table or database whose name begins or ends with a backtick"
        if name != name.rstrip():
            return "MariaDB has no table or database whose name ends in white space"
        if any(char > "\uffff" for char in name):
            return "MariaDB has no table or database with a character beyond U+FFFF in its name"
        if len(name) > _LONGEST:
            return f"MariaDB has no table or database with a name of more than {_LONGEST} characters"
        return ""
