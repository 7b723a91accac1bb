"""The rhythm of restarts under a clock of our own."""

from __future__ import annotations

import json
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import httpx

from cdc_assets.capture.connectors.connector_restart import MAX_RESTARTS, Action, RestartState, decide
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs import restart_sensors
from cdc_assets.defs.volumetry_checks import _connector
from cdc_assets.registry.errors import MissingAddressError
from cdc_assets.registry.source_declaration import Source, TopicSource


def run(minutes: int, failed_at: range | set[int]) -> list[tuple[int, Action]]:
    """What is done in each minute, but for waiting and nothing."""
    state, done = RestartState(), []
    for minute in range(minutes):
        failed = minute in failed_at
        action, state = decide(state, failed=failed, running=not failed, now=1e9 + minute * 60)
        if action not in ("none", "wait", "given up"):
            done.append((minute, action))
    return done


def test_seven_restarts_with_growing_pauses_then_it_gives_up_once() -> None:
    done = run(500, range(500))
    at = [minute for minute, action in done if action == "restart"]
    assert [later - earlier for earlier, later in pairwise(at)] == [2, 6, 12, 20, 30, 42]
    assert len(at) == MAX_RESTARTS
    assert done[-1] == (at[-1] + 56, "give up")
    assert len(done) == MAX_RESTARTS + 1


def test_one_failure_is_forgotten_after_it_has_run_for_a_while() -> None:
    assert run(60, {0, 30}) == [(0, "restart"), (2, "recovered"), (30, "restart"), (32, "recovered")]


def test_one_that_fails_soon_after_each_restart_is_not_restarted_for_ever() -> None:
    state, done, well_until = RestartState(), [], 0
    for minute in range(1000):
        failed = minute >= well_until
        action, state = decide(state, failed=failed, running=not failed, now=1e9 + minute * 60)
        done.append(action)
        well_until = minute + 2 if action == "restart" else well_until
    assert done.count("restart") == MAX_RESTARTS
    assert done.count("give up") == 1
    assert "recovered" not in done


def test_a_person_who_mends_it_after_that_starts_it_anew() -> None:
    state = RestartState(MAX_RESTARTS, 1e9, given_up=True)
    assert decide(state, failed=True, running=False, now=2e9) == ("given up", state)
    assert decide(state, failed=False, running=True, now=2e9) == ("recovered", RestartState())


class Worker:
    """A Connect cluster whose connectors are all in one state; None: it does not answer."""

    def __init__(self, task: str | None) -> None:
        self.task, self.asked, self.restarted = task, 0, list[str]()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        if self.task is None:
            raise httpx.ConnectError("refused")
        if request.method == "POST":
            self.restarted.append(request.url.path.split("/")[2])
            return httpx.Response(202)
        tasks = [{"id": 0, "state": self.task, "trace": "org.example.Boom: no route"}]
        return httpx.Response(200, json={"connector": {"state": "RUNNING"}, "tasks": tasks})


def platform(core: Worker, lake: Worker) -> Any:
    both = [ConnectClient(f"http://{n}", transport=httpx.MockTransport(w)) for n, w in (("core", core), ("lake", lake))]
    asked = dict(zip(("core", "lake"), both, strict=True))
    return SimpleNamespace(core_connect=lambda _: both[0], lake_connect=lambda: both[1], connect=asked.__getitem__)


DATABASE = {"kind": "mysql", "host": "db", "user": "u", "password": {"secret": "p"}}
SHOP = Source.model_validate(
    {
        "source": "shop",
        "database": {**DATABASE, "kind": "mariadb"},
        "tables": [{"name": "s.t"}],
        "mirror": {"heartbeats": "10s"},
    }
)
CLICKS = {"name": "clicks", "topic": "clicks", "envelope": "json", "columns": {"id": "text"}}
WEB = TopicSource.model_validate({"source": "web", "kind": "topics", "tables": [CLICKS]})


def test_a_cluster_that_is_away_does_not_hold_up_the_tick_nor_make_it_forget(monkeypatch: Any) -> None:
    """Dagster ends a tick after 60 s, without its cursor; three connectors would be asked for 60 s each."""
    monkeypatch.setattr(restart_sensors, "_ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(restart_sensors, "refuse_other", lambda *_: None)
    core, lake = Worker("FAILED"), Worker(None)
    result = restart_sensors.evaluate(SHOP, platform(core, lake), "{}", now=1e9)
    assert core.restarted == ["shop-capture"]
    assert json.loads(result.cursor or "")["shop-capture"]["restarts"] == 1
    assert str(result.skip_reason).count("no answer: refused") == 1
    assert "shop-mirror" in str(result.skip_reason)


def test_the_mirror_of_a_source_of_topics_is_restarted_too() -> None:
    lake = Worker("FAILED")
    result = restart_sensors.evaluate(WEB, platform(Worker(None), lake), "{}", now=1e9)
    assert lake.restarted == ["web-mirror"]
    spent = json.dumps({"web-mirror": {"restarts": MAX_RESTARTS, "last": 1e9, "given_up": False}})
    given_up = restart_sensors.evaluate(WEB, platform(Worker(None), lake), spent, now=2e9)
    assert (given_up.asset_events, "cdc restart web-mirror" in str(given_up.skip_reason)) == ([], True)
    assert result.asset_events == []


def test_the_check_tells_of_each_connector_of_the_source() -> None:
    """A mirror that was given up on was green again with the next round of checks."""
    found = _connector(Chain(platform(Worker("RUNNING"), Worker("RUNNING")), SHOP))
    assert found.passed
    found = _connector(Chain(platform(Worker("RUNNING"), Worker("FAILED")), SHOP))
    assert (found.passed, found.severity.value) == (False, "WARN")
    for name in ("shop-mirror", "shop-heartbeats"):
        assert f"{name}: RUNNING, tasks: FAILED. org.example.Boom: no route" in str(found.description)
    found = _connector(Chain(platform(Worker("FAILED"), Worker("RUNNING")), SHOP))
    assert (found.passed, found.severity.value) == (False, "ERROR")


def test_a_platform_without_a_connect_beside_the_lake_is_no_trouble(monkeypatch: Any) -> None:
    """Where KafkaMirrorMaker2 mirrors."""
    monkeypatch.setattr(restart_sensors, "refuse_other", lambda *_: None)

    def none(cluster: str = "lake") -> ConnectClient:
        if cluster == "core":
            return core.core_connect("core")
        raise MissingAddressError("CDC_LAKE_CONNECT", "it", is_of_stack=True)

    core = platform(Worker("RUNNING"), Worker(None))
    bare: Any = SimpleNamespace(core_connect=core.core_connect, lake_connect=none, connect=none)
    assert _connector(Chain(bare, SHOP)).passed
    result = restart_sensors.evaluate(SHOP, bare, "{}", now=1e9)
    assert str(result.skip_reason).count("CDC_LAKE_CONNECT is not set") == 1
