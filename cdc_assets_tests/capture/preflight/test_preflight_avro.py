"""What `cdc preflight` says of a source in Avro: its registry with its login, and the worker's converter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdc_assets.capture.preflight.inspection import inspect_schema_registry
from cdc_assets.clients.connector_states import Plugin
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.lake.avro import registry
from cdc_assets_tests.support.servers.login_front import login_front

CONFLUENT = "io.confluent.connect.avro.AvroConverter"


class Worker:
    """A platform whose Connect has these classes, or does not answer."""

    url = "http://connect"

    def __init__(self, *classes: str, answers: bool = True) -> None:
        self._classes, self._answers = classes, answers

    def core_connect(self, _: str) -> Worker:
        return self

    def within(self, _: float) -> Worker:
        return self

    def plugins(self) -> list[Plugin]:
        if not self._answers:
            raise ServiceError("Connect at http://connect does not answer")
        return [Plugin(name, "1", "converter") for name in self._classes]


def findings(platform: Worker, schemas: Any) -> dict[str, tuple[str, str]]:
    database = {"kind": "postgresql", "host": "h", "dbname": "d", "user": "u", "password": {"secret": "p"}}
    capture = {"envelope": "debezium-avro", "converter": "confluent", "schema_registry": schemas} if schemas else {}
    declared = {"source": "shop", "database": database, "capture": capture, "tables": [{"name": "public.orders"}]}
    found = inspect_schema_registry(Chain(platform, Source.model_validate(declared)))  # type: ignore[arg-type]
    return {each.check: (each.level, each.message) for each in found}


def test_a_registry_that_answers_and_a_worker_that_has_the_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    monkeypatch.setenv("CDC_SECRET_REGISTRY", "canary/")
    assert findings(Worker(), None) == {}
    with registry() as kept, login_front(kept.url, "cdc", "canary/") as front:
        login = {"user": "cdc", "password": {"secret": "registry"}}
        found = findings(Worker(CONFLUENT), {"url": front, **login})
        assert {check: level for check, (level, _) in found.items()} == {"schema_registry": "ok", "converter": "ok"}
        for schemas, told in (
            (front, "answers 401"),
            ({"url": front, "user": "other", "password": {"secret": "registry"}}, "answers 401"),
            ({"url": front, "user": "cdc", "password": {"secret": "nowhere"}}, "nowhere"),
            ({"url": f"{front}/elsewhere", **login}, "does not answer as Confluent's does"),
            ("http://127.0.0.1:1", "is it running and reachable from here"),
        ):
            level, message = findings(Worker(CONFLUENT), schemas)["schema_registry"]
            assert (level, told in message) == ("fail", True), message
            assert "canary" not in message
        level, message = findings(Worker("other.Converter"), {"url": front, **login})["converter"]
        assert (level, message) == ("fail", f"has no converter {CONFLUENT}")
        assert findings(Worker(answers=False), {"url": front, **login})["converter"][0] == "warn"
