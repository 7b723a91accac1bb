"""TLS as the drivers want to be told of it: what the source's declaration means for the server at one address."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from cdc_assets.errors import DatabaseError
from cdc_assets.launcher.uv_wheel import CERTIFICATE_BUNDLES
from cdc_assets.registry.tls import Encrypted


def libpq_options(database: Encrypted, host: str) -> dict[str, str]:
    """`sslmode`, and where a certificate is verified the file of those who may have signed it.

    Without that file libpq wants one in the user's home, and `system` is where its own OpenSSL was built to look.
    """
    options = {"sslmode": database.mode_at(host)}
    return {**options, "sslrootcert": database.sslrootcert or _system_roots()} if database.verifies(host) else options


def pymysql_options(database: Encrypted, host: str) -> dict[str, Any]:
    """An SSLContext, or none. Told nothing, PyMySQL takes TLS where the server has it; with a context it refuses one without.

    Raises:
        DatabaseError: the file of authorities cannot be read.
    """
    mode = database.mode_at(host)
    encrypted, plain = database.UNVERIFIED
    if mode == plain:
        return {"ssl_disabled": True}
    if mode != encrypted and not database.verifies(host):
        return {}
    try:
        context = ssl.create_default_context(cafile=database.sslrootcert)
    except OSError as error:
        raise DatabaseError(f"sslrootcert {database.sslrootcert} cannot be read as PEM: {error.strerror or error}") from error
    context.check_hostname = mode == database.VERIFIED[-1]
    if mode == encrypted:
        context.verify_mode = ssl.CERT_NONE
    return {"ssl": context}


def _system_roots() -> str:
    found = ssl.get_default_verify_paths().cafile
    return found or next((bundle for bundle in CERTIFICATE_BUNDLES if Path(bundle).is_file()), "system")
