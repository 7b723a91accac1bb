"""Where a PostgreSQL database is. A table is named `schema.table`."""

from __future__ import annotations

from typing import Literal

from cdc_assets.references import EnvRef, SecretRef
from cdc_assets.registry.addresses import DbName, Host
from cdc_assets.registry.tls import Encrypted


class Database(Encrypted):
    """Where the source database is. Host, port and user may be `{env: NAME}`. The password is a secret.

    Without `sslmode` a server elsewhere must show a certificate that can be
    verified, by those who are in `sslrootcert`, or by the system's (docs/how-to/security.md).
    """

    HERE, VERIFIED, UNVERIFIED = "prefer", ("verify-ca", "verify-full"), ("require", "disable")

    kind: Literal["postgresql"]
    host: Host | EnvRef
    port: int | EnvRef = 5432
    dbname: DbName
    user: str | EnvRef
    password: SecretRef
    sslmode: Literal["disable", "prefer", "require", "verify-ca", "verify-full"] | None = None

    def name_refusal(self, name: str) -> str:
        """Its connector names tables in CREATE PUBLICATION, and takes a name with a quote at an end for one that is quoted.

        The statement is invalid then, and no table of the source is read (io.debezium.relational.TableId.quote, 3.7).
        """
        if name.startswith('"') or name.endswith('"'):
            return "Debezium cannot publish a table or schema whose name begins or ends with a double quote"
        return ""
