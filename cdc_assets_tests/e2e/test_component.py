"""A source in a Dagster project of somebody else, by the Component: its own sensor carries it to silver, on real parts.

The project has our wheel installed, and of the running stack the addresses. `dg dev` is its webserver, daemon and code server.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from cdc_assets_tests.e2e.source_rows import silver_rows, source_rows
from cdc_assets_tests.e2e.webserver import Graphql
from cdc_assets_tests.support.foreign_project import ForeignProject, create_project
from cdc_assets_tests.support.lake.jvm import free_port
from cdc_assets_tests.support.lakehouse import Lakehouse, until
from cdc_assets_tests.support.page_blocks import blocks_of

pytestmark = [pytest.mark.e2e, pytest.mark.all]
_GIVEN = (
    *(f"{cluster}_{what}" for cluster in ("CORE", "LAKE") for what in ("BOOTSTRAP", "LOGIN", "CONNECT")),
    *("CONNECT_SECRETS", "SPARK_REMOTE", "LAKE"),
)
_KEYS = {
    "CORE_CONNECT_LOGIN_FILE": "CORE_CONNECT",
    "LAKE_CONNECT_LOGIN_FILE": "LAKE_CONNECT",
    "SPARK_TOKEN_FILE": "SPARK_REMOTE",
}
"""What docs/how-to/library.md has a project set, and for what asks for a key the file that holds it."""
_AT_ONCE: dict[str, Any] = {"execution": {"config": {"in_process": {}}}}
_DG = "from dagster_dg_cli.cli import main; main()"
_ROWS = "SELECT n, 'parcel ' || n, n / 7.0 FROM generate_series(1, 200) n"


@contextmanager
def dagster_of(project: ForeignProject, log: Path) -> Iterator[Graphql]:
    """Started as docs/how-to/library.md says."""
    port = free_port()
    command = [str(project.python), "-c", _DG, "dev", "--host", "127.0.0.1", "--port", str(port)]
    with log.open("w") as stream:
        process = subprocess.Popen(
            command, cwd=project.folder, env=project.environment(), stdout=stream, stderr=stream, start_new_session=True
        )
        try:
            found = Graphql(f"http://127.0.0.1:{port}", location=project.folder.name)
            until_loaded(found, process, log)
            yield found
        finally:
            # Its webserver, daemon, code server and runs are of its session; nothing of theirs is kept.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def until_loaded(dagster: Graphql, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 240
    while True:
        try:
            if dagster.assets():
                return
        except httpx.HTTPError:
            assert process.poll() is None, log.read_text()[-4000:]
        assert time.monotonic() < deadline, log.read_text()[-4000:]
        time.sleep(0.3)


@pytest.fixture
def depot(request: pytest.FixtureRequest, lakehouse: Lakehouse, foreign_python: Path, tmp_path: Path) -> Iterator[ForeignProject]:
    """A project with the source depot, or of the name that a test gives, whose table is in the database of world."""
    name = getattr(request, "param", "depot")
    places = {f"CDC_{name}": lakehouse.addresses[f"CDC_{name}"] for name in _GIVEN}
    keys = json.loads((lakehouse.home / "stack.json").read_text())["state"]["keys"]
    files = {f"CDC_{name}": keys[places[f"CDC_{address}"]] for name, address in _KEYS.items()}
    secret = (lakehouse.home / "secrets" / "world_db_password").read_text().strip()
    project = create_project(
        tmp_path / "lakehouse", python=foreign_python, CDC_SECRET_WORLD_DB_PASSWORD=secret, **places, **files
    )
    declared = yaml.safe_load((lakehouse.sources / "world.yaml").read_text())["database"]
    address = {"host": lakehouse.addresses["CDC_POSTGRES_HOST"], "port": int(lakehouse.addresses["CDC_POSTGRES_PORT"])}
    source = {"source": name, "database": declared | address, "tables": [{"name": f"public.{name}_parcels"}]}
    project.add_source(name, yaml.safe_dump(source))
    with lakehouse.connect("world") as world:
        world.execute(f"CREATE TABLE {name}_parcels (id bigint PRIMARY KEY, note text, price numeric(30,10))")
        world.execute(f"INSERT INTO {name}_parcels {_ROWS}")
    yield project
    with lakehouse.connect("world") as world:
        world.execute(f"DROP TABLE {name}_parcels")
    login = ("cdc", lakehouse.private("connect_password"))
    for cluster, connector in (("CORE", f"{name}-capture"), ("LAKE", f"{name}-mirror")):
        httpx.delete(f"{places[f'CDC_{cluster}_CONNECT']}/connectors/{connector}", auth=login, timeout=60, trust_env=False)


@pytest.mark.parametrize("depot", ["store"], indirect=True)
def test_an_asset_of_the_project_follows_an_insert(lakehouse: Lakehouse, depot: ForeignProject, tmp_path: Path) -> None:
    """As docs/how-to/library.md has it: no button but those of the connector's chain."""
    from deltalake import DeltaTable

    text = blocks_of("library.md", "python")["follow.py"]
    for old, new in {"shop": "store", "silver_orders": "silver_store_parcels", "/orders": "/store_parcels"}.items():
        text = text.replace(old, new)
    (depot.defs / "follow.py").write_text(text)
    gold = Path(lakehouse.addresses["CDC_LAKE"]) / "gold" / "order_count"

    def newest() -> int:
        return max(DeltaTable(gold).to_pyarrow_table()["rows"].to_pylist()) if gold.exists() else 0

    with dagster_of(depot, tmp_path / "dagster.log") as dagster:
        dagster.materialize(
            ["connector/store/connector_store", "topic/store/topic_store_parcels", "mirror/store/mirror_store_parcels"], _AT_ONCE
        )
        until(lambda: newest() == 200, "gold has not the rows of the snapshot", seconds=300)
        with lakehouse.connect("world") as world:
            world.execute("INSERT INTO store_parcels VALUES (900, 'followed', 1)")
        until(lambda: newest() == 201, "gold has no row of the INSERT", seconds=240)
        assert dagster.sensor_that_made("gold/order_count") == "automation"


def test_its_own_sensor_carries_a_source_to_silver(lakehouse: Lakehouse, depot: ForeignProject, tmp_path: Path) -> None:
    from deltalake.exceptions import TableNotFoundError

    silver = "silver/depot/silver_depot_parcels"
    with dagster_of(depot, tmp_path / "dagster.log") as dagster:
        # What makes the connectors; nobody but the sensor touches bronze and silver.
        dagster.materialize(
            ["connector/depot/connector_depot", "topic/depot/topic_depot_parcels", "mirror/depot/mirror_depot_parcels"], _AT_ONCE
        )
        with lakehouse.connect("world") as world:
            world.execute("UPDATE depot_parcels SET price = price + 0.0000000001 WHERE id % 50 = 0")
            world.execute("UPDATE depot_parcels SET id = id + 1000 WHERE id = 7")
            world.execute("DELETE FROM depot_parcels WHERE id % 100 = 3")
            world.execute("INSERT INTO depot_parcels VALUES (-1, 'Añb''\"\\ 中', NULL)")
            columns, expected = source_rows(world, "depot_parcels")
        deadline, found = time.monotonic() + 240, None
        while found != expected:
            assert time.monotonic() < deadline, (dagster.sensor("offsets_depot"), (tmp_path / "dagster.log").read_text()[-4000:])
            time.sleep(0.3)
            try:
                found = silver_rows(lakehouse.silver("depot", "depot_parcels"), columns)
            except TableNotFoundError:
                found = None
        assert dagster.sensor("offsets_depot")[0] == "RUNNING"
        assert dagster.sensor_that_made(silver) == "offsets_depot"
        checked = [("bronze/depot/bronze_depot_parcels", "record_parity"), (silver, "reconciled")]
        dagster.execute_checks(checked, _AT_ONCE)
        checked.append(("connector/depot/connector_depot", "connector_running"))
        # A schedule of its own may have begun another round by then.
        assert dagster.statuses_at_end(checked) == dict.fromkeys(checked, "SUCCEEDED")
