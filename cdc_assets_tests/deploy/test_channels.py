"""Alerts by a real HTTP server and a real SMTP server (aiosmtpd), from the sensor to what arrives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message
from email.policy import default
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from aiosmtpd.controller import Controller
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.dagster_answers import DagsterAnswers
from cdc_assets.defs import alert_and_trace_sensors as sensor
from cdc_assets.deploy.alert_channels import load_channels
from cdc_assets.proof.chain_verdicts import FAILED, PASSED, CheckVerdict
from cdc_assets.registry.errors import SettingError
from cdc_assets_tests.support.lake.jvm import free_port
from cdc_assets_tests.support.posts import Posts, posts_server

RED = CheckVerdict(("silver", "shop", "silver_orders"), "reconciled", FAILED, "3 keys differ")
GREEN = CheckVerdict(RED.asset, RED.name, PASSED)


class Mails:
    """Keeps the messages that the SMTP server took."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802 - aiosmtpd calls it so
        self.messages.append(message_from_bytes(envelope.content, policy=default))
        return "250 OK"


@pytest.fixture
def posts() -> Iterator[Posts]:
    with posts_server() as server:
        yield server


@contextmanager
def mail_server(mails: Mails) -> Iterator[int]:
    port = free_port()
    controller = Controller(mails, hostname="127.0.0.1", port=port, ready_timeout=60)
    controller.start()
    try:
        yield port
    finally:
        controller.stop()


@pytest.fixture
def mails() -> Mails:
    return Mails()


@pytest.fixture
def file(tmp_path: Path, posts: Posts, mails: Mails, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Three channels, their addresses by reference."""
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CDC_SECRET_SLACK", f"http://127.0.0.1:{posts.server_port}/slack")
    monkeypatch.setenv("PAGER_URL", f"http://127.0.0.1:{posts.server_port}/pager")
    monkeypatch.setenv("CDC_DAGSTER_URL", "http://127.0.0.1:1")
    with mail_server(mails) as port:
        made = tmp_path / "alerts.yaml"
        made.write_text(
            "- {kind: slack, name: ops, url: {secret: slack}}\n"
            "- {kind: webhook, name: pager, url: {env: PAGER_URL}}\n"
            f"- {{kind: mail, name: team, host: 127.0.0.1, port: {port}, security: none, sender: cdc@example.org, "
            "to: [team@example.org, ops@example.org]}\n"
        )
        monkeypatch.setenv("CDC_ALERTS", str(made))
        yield made


class Ticks:
    """The sensor, tick by tick, with what the checks say."""

    def __init__(self, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
        self.instance, self.cursor = instance, None
        self.verdicts: list[CheckVerdict] = []
        monkeypatch.setattr(sensor, "DagsterAnswers", lambda: None)
        monkeypatch.setattr(sensor, "check_verdicts", lambda _: self.verdicts)
        (self.sensor,) = sensor.build_alert_sensors()

    def tick(self, *verdicts: CheckVerdict) -> str:
        self.verdicts = [*verdicts]
        done = self.sensor.evaluate_tick(dg.build_sensor_context(instance=self.instance, cursor=self.cursor))
        self.cursor = done.cursor
        return done.skip_message or ""


@pytest.fixture
def ticks(file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ticks]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Ticks(instance, monkeypatch)


@pytest.mark.slow
def test_every_channel_is_told_once(ticks: Ticks, posts: Posts, mails: Mails) -> None:
    for verdict in (GREEN, RED, RED, GREEN, GREEN):
        ticks.tick(verdict)
    slack = [body["text"] for path, body in posts.bodies if path == "/slack"]
    assert [text.split("\n")[0] for text in slack] == [f"RED {RED.place}: 3 keys differ", f"GREEN {RED.place}"]
    assert "mend: cdc reconcile shop.orders --heal" in slack[0]
    pager = [alert for path, body in posts.bodies if path == "/pager" for alert in body["alerts"]]
    assert [(alert["state"], alert["place"]) for alert in pager] == [("red", RED.place), ("green", RED.place)]
    first, second = mails.messages
    assert (first["Subject"], first["To"]) == (f"cdc: red {RED.place}", "team@example.org, ops@example.org")
    assert "mend: cdc reconcile shop.orders --heal" in first.get_payload()
    assert second["Subject"] == f"cdc: green {RED.place}"


@pytest.mark.slow
def test_a_channel_that_is_away_is_told_later_and_the_others_are_not_told_twice(ticks: Ticks, posts: Posts, mails: Mails) -> None:
    posts.status = 503
    assert "2 channels did not take the message" in ticks.tick(RED)
    assert len(mails.messages) == 1
    posts.status = 200
    ticks.tick(RED)
    ticks.tick(RED)
    assert sorted(path for path, _ in posts.bodies) == ["/pager", "/slack"]
    assert len(mails.messages) == 1


def test_a_webserver_that_does_not_answer_yet_is_waited_for(ticks: Ticks, posts: Posts, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon ticks before it, each time a stack starts: a tick that fails then is red in Dagster for nothing."""
    ticks.tick(GREEN)
    before = ticks.cursor
    with monkeypatch.context() as patch:
        patch.setattr(sensor, "check_verdicts", lambda asked: asked.ask("{ version }"))
        patch.setattr(sensor, "DagsterAnswers", lambda: DagsterAnswers("http://127.0.0.1:9"))
        assert "http://127.0.0.1:9 does not answer" in ticks.tick()
    assert ticks.cursor == before
    ticks.tick(RED)
    assert len([path for path, _ in posts.bodies if path == "/slack"]) == 1


@dg.op
def broken() -> None:
    raise ValueError("no such table")


@dg.job
def folding() -> None:
    broken()


@pytest.mark.slow
def test_a_failed_run_is_told_with_its_reason(ticks: Ticks, posts: Posts) -> None:
    folding.execute_in_process(instance=ticks.instance, raise_on_error=False)  # Before anybody was told.
    ticks.tick()
    run = folding.execute_in_process(instance=ticks.instance, raise_on_error=False).run_id
    ticks.tick()
    ticks.tick()
    told = [alert for path, body in posts.bodies if path == "/pager" for alert in body["alerts"]]
    assert [(alert["state"], alert["place"]) for alert in told] == [("failed", "run of folding")]
    assert told[0]["description"] == "broken: ValueError: no such table"
    assert told[0]["link"] == f"http://127.0.0.1:1/runs/{run}"


@pytest.mark.slow
def test_the_command_tries_them(file: Path, posts: Posts, mails: Mails) -> None:
    done = CliRunner().invoke(app, ["alerts", "--test", "-o", "json"])
    assert done.exit_code == 0, done.output
    assert [row["test"] for row in json.loads(done.stdout)] == ["sent", "sent", "sent"]
    assert (len(posts.bodies), len(mails.messages)) == (2, 1)
    posts.status = 500
    done = CliRunner().invoke(app, ["alerts", "--test"])
    assert done.exit_code == 1
    assert "ops: the address answers 500" in done.stderr
    assert str(posts.server_port) not in done.output


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- {kind: pigeon, name: a}", "pigeon"),
        ("- {kind: slack, name: a}", "url"),
        ("- {kind: slack, name: a, url: x}\n- {kind: slack, name: a, url: y}", "two channels are called a"),
        ("- [", "cannot be read"),
    ],
)
def test_a_wrong_file_is_told(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "alerts.yaml"
    file.write_text(text)
    with pytest.raises(SettingError, match=told):
        load_channels(file)


def test_without_channels_there_is_no_sensor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CDC_ALERTS", raising=False)
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    assert sensor.build_alert_sensors() == []
