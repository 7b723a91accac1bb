"""pgbench's TPC-B bank at scale 1: 100,000 accounts, and a history table without a primary key."""

from __future__ import annotations

import os
import subprocess

from cdc_assets.stack.components.postgres import binary
from cdc_assets.stack.errors import StackError
from cdc_assets.stack.examples import owner
from cdc_assets.stack.site import Site


def load(site: Site) -> None:
    """Create and fill the tables where they are not whole yet."""
    import psycopg

    login = owner.create(site, "bank")
    with psycopg.connect(**login) as connection:  # type: ignore[arg-type]
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
