"""What a connector is told of TLS: the same as our own client for the same address (cdc_assets.resources.databases.tls).

Without a file of the source's own, Java's authorities are asked (`javax.net.ssl.trustStore` of the worker).
"""

from __future__ import annotations

from cdc_assets import settings
from cdc_assets.registry.mariadb import MariaDb
from cdc_assets.registry.mysql import MySql
from cdc_assets.registry.postgresql import Database


def postgresql_tls(database: Database) -> dict[str, str]:
    """A PEM file, on the worker too. Without one the driver would look for a file in the worker's home."""
    host = settings.resolve(database.host)
    config = {"database.sslmode": database.mode_at(host)}
    if database.sslrootcert:
        return {**config, "database.sslrootcert": database.sslrootcert}
    javas = {"database.sslfactory": "org.postgresql.ssl.DefaultJavaSSLFactory"}
    return {**config, **javas} if database.verifies(host) else config


def binlog_tls(database: MariaDb | MySql) -> dict[str, str]:
    """A Java keystore: certificates alone need no password."""
    mode = {"database.ssl.mode": database.mode_at(settings.resolve(database.host))}
    return {**mode, "database.ssl.truststore": database.truststore} if database.truststore else mode
