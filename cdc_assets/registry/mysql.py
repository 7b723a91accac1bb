"""Where a MySQL server is. A table is named `database.table`."""

from __future__ import annotations

from typing import Literal

from cdc_assets.references import EnvRef, SecretRef
from cdc_assets.registry.addresses import Host
from cdc_assets.registry.tls import EncryptedBinlog


class MySql(EncryptedBinlog):
    """Host, port and user may be `{env: NAME}`. The password is a secret.

    `snapshot_locking: minimal` holds a global read lock while the schemas are read, so that the snapshot is of one moment.
    Take `none` if that is not allowed and nobody changes a schema meanwhile. `time_zone` is the one in which the server's
    TIMESTAMPs are read when it does not say. Without `sslmode` a server elsewhere must show a certificate that can be
    verified, by those who are in `sslrootcert`, or by the system's (docs/how-to/security.md).
    `truststore` has them for the connector, which reads no PEM.
    """

    HERE, VERIFIED, UNVERIFIED = "preferred", ("verify_ca", "verify_identity"), ("required", "disabled")

    kind: Literal["mysql"]
    host: Host | EnvRef
    port: int | EnvRef = 3306
    user: str | EnvRef
    password: SecretRef
    sslmode: Literal["disabled", "preferred", "required", "verify_ca", "verify_identity"] | None = None
    snapshot_locking: Literal["minimal", "extended", "none"] = "minimal"
    time_zone: str | None = None

    @property
    def tells_snapshots(self) -> bool:
        """It is told under a global read lock."""
        return self.snapshot_locking != "none"
