"""`--spark standalone`: executors, a worker and the master may die, and nobody without the secret is served."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import httpx
import psutil
import pytest

from cdc_assets.clients.spark_sessions import SparkSessions
from cdc_assets.registry import settings
from cdc_assets.stack import supervisor
from cdc_assets.stack.component_plan import load
from cdc_assets.stack.component_state import read_state
from cdc_assets.stack.components.spark_cluster import MASTER, SECRET, WORKERS
from cdc_assets.stack.home import Home
from cdc_assets.stack.stack_errors import StackError
from cdc_assets_tests.support.modes import open_to_others
from cdc_assets_tests.support.own_stack import ELSEWHERE, state_of, until
from cdc_assets_tests.support.stack_fixture import environment_of

pytestmark = [pytest.mark.stack, pytest.mark.all]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("cluster") / "home")
    with environment_of(home):
        given = {**ELSEWHERE, "CDC_POSTGRES_HOST": "127.0.0.1", "STORAGE_EMULATOR_HOST": "http://127.0.0.1:9"}
        os.environ.update({name: value for name, value in given.items() if name != "CDC_SPARK_REMOTE"})
        supervisor.fetch_jars(supervisor.missing_jars())
        try:
            supervisor.start(home, spark="standalone")
            supervisor.wait_healthy(home, seen=lambda _: None)
            yield home
        finally:
            supervisor.stop(home)


def family(home: Home) -> list[psutil.Process]:
    state = read_state(home)
    assert state
    return psutil.Process(state.supervisor).children(recursive=True)


def executors(home: Home) -> list[psutil.Process]:
    return [each for each in family(home) if "CoarseGrainedExecutorBackend" in command(each)]


def command(process: psutil.Process) -> str:
    """Empty of one that has ended, which its parent has not noticed yet."""
    with suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def total() -> int:
    remote = settings.address("CDC_SPARK_REMOTE")
    sessions = SparkSessions(remote, settings.key(remote, "CDC_SPARK_TOKEN_FILE"))
    return int(sessions.run(lambda session, _: session.range(0, 1000, 1, 8).selectExpr("sum(id)").collect(), None)[0][0])


def kill(home: Home, name: str) -> None:
    before = state_of(home, name)
    assert before.pid
    os.kill(before.pid, signal.SIGKILL)
    until(lambda: state_of(home, name).restarts > before.restarts and state_of(home, name).health == "healthy")


def test_two_executors_do_the_work_and_each_part_may_die(home: Home) -> None:
    assert len(executors(home)) == len(WORKERS)
    assert total() == 499_500
    connect = state_of(home, "spark-connect").pid
    for victim in executors(home):
        victim.kill()
        assert total() == 499_500
    kill(home, WORKERS[0])
    until(lambda: len(executors(home)) == len(WORKERS))
    kill(home, MASTER)
    # A master that had forgotten who asks would give no executor any more.
    for victim in executors(home):
        victim.kill()
    until(lambda: len(executors(home)) == len(WORKERS))
    assert total() == 499_500
    assert (state_of(home, "spark-connect").pid, state_of(home, "spark-connect").restarts) == (connect, 0)


def test_nobody_without_the_secret_sees_or_joins(home: Home) -> None:
    site = load(home)
    for name in (MASTER, *WORKERS):
        for path in ("/", "/json/"):
            assert httpx.get(f"http://{site.address(f'{name}-page')}{path}", trust_env=False).status_code in (401, 403)
    secret = home.private(SECRET)
    assert [each.pid for each in family(home) if secret in command(each)] == []
    places = [connection.laddr.ip for each in family(home) if command(each) for connection in each.net_connections("tcp")]
    assert set(places) <= {"127.0.0.1", "::ffff:127.0.0.1"}
    state = read_state(home)
    assert state
    assert open_to_others(home.root, [state.supervisor]) == []


def test_another_kind_of_spark_is_refused_while_this_one_runs(home: Home) -> None:
    with pytest.raises(StackError, match="runs with --spark standalone"):
        supervisor.start(home, spark="local")
    assert supervisor.start(home, spark="standalone") is False
