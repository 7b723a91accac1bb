"""The login role and database of an example source.

The role owns its database and tables: Debezium's filtered publication is created by it, which takes ownership of every
table in it. REPLICATION lets it read the log.
"""

from __future__ import annotations

from cdc_assets.stack.components.postgres import Postgres, ensure_database, ensure_role
from cdc_assets.stack.ports import HOST
from cdc_assets.stack.site import Site


def create(site: Site, source: str) -> dict[str, str]:
    """Make them exist; returns connection parameters of the role."""
    role, password = f"{source}_cdc", site.home.secret(f"{source}_db_password")
    postgres = Postgres(site)
    with postgres.connect() as connection:
        ensure_role(connection, role, password, "LOGIN REPLICATION")
        ensure_database(connection, source, owner=role)
    postgres.reserve_messages(source, role)
    port = str(site.ports["postgres"])
    return {"host": HOST, "port": port, "user": role, "password": password, "dbname": source}
