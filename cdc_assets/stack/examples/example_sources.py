"""Example sources in the embedded PostgreSQL: real data (`world`) and live traffic (`bank`). Loading twice changes nothing.

A source's login role owns its database and tables: Debezium's filtered publication is created by it, which takes ownership of
every table in it. REPLICATION lets it read the log.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection

from cdc_assets.registry import settings
from cdc_assets.stack.component import Site
from cdc_assets.stack.components.postgres_server import Postgres, ensure_database, ensure_role
from cdc_assets.stack.loopback import HOST


def create_example(site: Site, source: str) -> dict[str, str]:
    """Make them exist; returns connection parameters of the role."""
    role, password = f"{source}_cdc", site.home.secret(f"{source}_db_password")
    postgres = Postgres(site)
    with postgres.connect() as connection:
        ensure_role(connection, role, password, "LOGIN REPLICATION")
        ensure_database(connection, source, owner=role)
    postgres.reserve_messages(source, role)
    port = str(site.ports["postgres"])
    return {"host": HOST, "port": port, "user": role, "password": password, "dbname": source}


EXAMPLES = ("bank", "world")


def load_examples(site: Site, names: Collection[str] = EXAMPLES) -> None:
    """Load these example sources."""
    from cdc_assets.stack.examples import bank, world

    for name, load in (("bank", bank.load_bank), ("world", world.load_world)):
        if name in names:
            load(site)


def declare_examples(*, declared: bool) -> None:
    """Let the registry that ships with us be that of the examples, or one without a source, until the next `cdc up`."""
    from cdc_assets.registry.loader import REMOVED

    folder = settings.without_examples()
    if declared:
        shutil.rmtree(folder, ignore_errors=True)
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for file in settings.example_sources().glob("*.yaml"):
        shutil.copy(file, folder / f"{file.name}{REMOVED}")
