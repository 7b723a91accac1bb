"""Names in the catalog of the stack's Spark come back by themselves when it is killed and started again."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.spark_sessions import SparkSessions
from cdc_assets.registry import settings
from cdc_assets.stack import supervisor
from cdc_assets.stack.components.spark_connect_server import NAME
from cdc_assets.stack.home import Home
from cdc_assets_tests.support.lake.declared_topic import SOURCE
from cdc_assets_tests.support.own_stack import ELSEWHERE, state_of, until
from cdc_assets_tests.support.stack_fixture import environment_of

pytestmark = [pytest.mark.stack, pytest.mark.all]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A stack of Spark alone, whose lake has one table of silver."""
    home = Home(tmp_path / "home")
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "source.yaml").write_text(SOURCE)
    with environment_of(home):
        given = {**ELSEWHERE, "CDC_POSTGRES_HOST": "127.0.0.1", "STORAGE_EMULATOR_HOST": "http://127.0.0.1:9"}
        os.environ.update({name: value for name, value in given.items() if name != "CDC_SPARK_REMOTE"})
        os.environ["CDC_SOURCES"] = str(tmp_path / "sources")
        supervisor.fetch_jars(supervisor.missing_jars())
        try:
            supervisor.start(home)
            write_deltalake(home.lake / "silver" / "source" / "t", pa.table({"id": [1, 2], "v": ["a", "b"]}))
            supervisor.wait_healthy(home, seen=lambda _: None)
            yield home
        finally:
            supervisor.stop(home)


def count_rows() -> int | None:
    """By name, as a client does that knows nothing of us; None where there is no such name."""
    remote = settings.address("CDC_SPARK_REMOTE")
    sessions = SparkSessions(remote, settings.key(remote, "CDC_SPARK_TOKEN_FILE"))
    name = "silver_source.t"
    return sessions.run(lambda session, _: session.table(name).count() if session.catalog.tableExists(name) else None, None)


def test_names_come_back_when_spark_is_killed(home: Home) -> None:
    assert count_rows() is None
    done = CliRunner().invoke(app, ["sql", "--register"])
    assert done.exit_code == 0, (done.output, done.exception)
    assert count_rows() == 2
    before = state_of(home, NAME)
    assert before.pid
    os.kill(before.pid, signal.SIGKILL)
    until(lambda: state_of(home, NAME).restarts == 1 and state_of(home, NAME).health == "healthy", seconds=400)
    assert state_of(home, NAME).pid != before.pid
    until(lambda: count_rows() == 2)
    assert "after a restart" not in home.log("supervisor").read_text()
