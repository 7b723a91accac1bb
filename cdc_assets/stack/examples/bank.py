"""pgbench's TPC-B bank at scale 1, and a burst of live changes in both example sources.

The bank has 100,000 accounts, and a history table without a primary key. A burst has inserts, updates, deletes, a key change
and a transaction that is rolled back; sources that are not named are left alone.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection

from cdc_assets.registry import settings
from cdc_assets.stack.component import Site
from cdc_assets.stack.components.postgres_server import binary
from cdc_assets.stack.examples import example_sources
from cdc_assets.stack.home import Home
from cdc_assets.stack.stack_errors import StackError


def load_bank(site: Site) -> None:
    """Create and fill the tables where they are not whole yet."""
    import psycopg
    from psycopg.conninfo import make_conninfo

    login = example_sources.create_example(site, "bank")
    with psycopg.connect(make_conninfo(**login)) as connection:
        # pgbench adds the primary keys last, so these tell a whole bank from one whose filling was killed.
        query = "SELECT count(*) FROM pg_constraint WHERE contype = 'p' AND conrelid::regclass::text LIKE 'pgbench_%%'"
        row = connection.execute(query).fetchone()
    if row and row[0] == 3:
        return
    at = ["-h", login["host"], "-p", login["port"], "-U", login["user"], login["dbname"]]
    command = [binary("pgbench"), "--initialize", "--scale=1", "--init-steps=dtgvp", "--quiet", *at]
    environment = {**os.environ, "PGPASSWORD": login["password"]}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise StackError("bank", f"pgbench --initialize failed: {result.stderr.strip().splitlines()[-1]}", "./cdc up")


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
        _write_to_bank()
    if "world" in sources:
        _write_to_world()


def _write_to_bank() -> None:
    password = Home(settings.home()).secret("bank_db_password")
    command = [binary("pgbench"), "--no-vacuum", f"--transactions={_TRANSACTIONS // 2}", "--client=2", "-U", "bank_cdc"]
    command += ["-h", settings.address("CDC_POSTGRES_HOST"), "-p", settings.address("CDC_POSTGRES_PORT"), "bank"]
    environment = {**os.environ, "PGPASSWORD": password}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise StackError("bank", f"pgbench failed: {result.stderr.strip().splitlines()[-1]}", "./cdc status")


def _write_to_world() -> None:
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
