"""A burst of live changes in the example sources: inserts, updates, deletes, a key change, a rolled-back transaction."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection

from cdc_assets import settings
from cdc_assets.stack.components.postgres import binary
from cdc_assets.stack.errors import StackError
from cdc_assets.stack.home import Home

_TRANSACTIONS = 200
# A city that is moved to a new key and back again by the next burst, so that bursts leave 33,000 cities as they were.
_WORLD = (
    "UPDATE city SET population = population + 1, updated_at = now() WHERE geonameid % 100 = 0",
    "UPDATE city SET geonameid = -geonameid WHERE abs(geonameid) = (SELECT min(abs(geonameid)) FROM city)",
    "INSERT INTO country (iso, iso3, iso_numeric, geonameid, name, continent, population, languages, neighbours) "
    "VALUES ('--', '---', -1, -1, 'Nowhere', '--', 0, '{}', '{}')",
    "DELETE FROM country WHERE iso = '--'",
)


def burst(sources: Collection[str]) -> None:
    """Write into the example sources that are named; others are left alone."""
    if "bank" in sources:
        _bank()
    if "world" in sources:
        _world()


def _bank() -> None:
    password = Home(settings.home()).secret("bank_db_password")
    command = [binary("pgbench"), "--no-vacuum", f"--transactions={_TRANSACTIONS // 2}", "--client=2", "-U", "bank_cdc"]
    command += ["-h", settings.address("CDC_POSTGRES_HOST"), "-p", settings.address("CDC_POSTGRES_PORT"), "bank"]
    environment = {**os.environ, "PGPASSWORD": password}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise StackError("bank", f"pgbench failed: {result.stderr.strip().splitlines()[-1]}", "./cdc status")


def _world() -> None:
    import psycopg

    with psycopg.connect(
        host=settings.address("CDC_POSTGRES_HOST"),
        port=int(settings.address("CDC_POSTGRES_PORT")),
        dbname="world",
        user="world_cdc",
        password=Home(settings.home()).secret("world_db_password"),
        autocommit=True,
    ) as connection:
        for statement in _WORLD:
            connection.execute(statement.encode())
        with connection.transaction(force_rollback=True):
            connection.execute("DELETE FROM city")
