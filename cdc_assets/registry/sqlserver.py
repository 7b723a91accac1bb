"""Where a SQL Server is. One source is one database; a table is named `schema.table`."""

from __future__ import annotations

from typing import Literal

from cdc_assets.references import EnvRef, SecretRef
from cdc_assets.registry.addresses import DbName, Host
from cdc_assets.registry.declared import DatabaseKind


class SqlServer(DatabaseKind):
    """Host, port and user may be `{env: NAME}`. The password is a secret. Experimental: not run against a server.

    With `instance` the server is asked for that instance's port, and `port` is not used.
    `snapshot_isolation: snapshot` reads all tables as of one moment and locks nobody out. It needs
    ALLOW_SNAPSHOT_ISOLATION. `repeatable_read` holds locks on what it has read. `read_only_replica` reads an Always On
    secondary. Changes come from the tables' capture instances: preflight says which are missing.
    """

    kind: Literal["sqlserver"]
    host: Host | EnvRef
    port: int | EnvRef = 1433
    instance: str | None = None
    dbname: DbName
    user: str | EnvRef
    password: SecretRef
    encrypt: bool = True
    trust_server_certificate: bool = False
    snapshot_isolation: Literal["snapshot", "repeatable_read", "read_committed", "exclusive"] = "snapshot"
    read_only_replica: bool = False

    @property
    def topic_scope(self) -> tuple[str, ...]:
        """One connector may read several databases (SqlServerConnectorTask asks for the multi-partition mode, 3.6.1)."""
        return (self.dbname,)

    @property
    def signal_scope(self) -> tuple[str, ...]:
        """Its signals name the database as well."""
        return (self.dbname,)
