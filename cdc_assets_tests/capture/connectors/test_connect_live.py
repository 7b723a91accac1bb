"""The client's verbs on a real worker, with Kafka's own file-less connector and with Debezium."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from cdc_assets.capture.connectors.postgresql_connector import capture_config
from cdc_assets.clients.connector_states import SourceOffset
from cdc_assets.registry.errors import ServiceError
from cdc_assets_tests.support.live.live_source import LiveSource

MIRROR = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"


@pytest.fixture(scope="module")
def captured(live: LiveSource) -> Iterator[LiveSource]:
    """A connector on one table, which has delivered."""
    mine = replace(live, name="verbs")
    with mine.connection() as connection:
        connection.execute("CREATE TABLE public.verbs (id int PRIMARY KEY, v text)")
        connection.execute("INSERT INTO public.verbs VALUES (1, 'one')")
    mine.capture(["public.verbs"])
    mine.delivered()
    yield mine
    mine.connect.delete("verbs-capture")


@pytest.mark.all
def test_stop_then_offsets_then_resume(captured: LiveSource) -> None:
    connect, name = captured.connect, "verbs-capture"
    assert connect.overview()[name].type == "source"
    assert connect.overview()[name].status == connect.status(name)
    with pytest.raises(ServiceError, match="STOPPED state"):
        connect.reset_offsets(name)
    assert connect.stop(name).stopped
    (found,) = connect.offsets(name)
    assert found["partition"] == {"server": "verbs"}
    moved = {**found["offset"], "ts_usec": 1}
    connect.patch_offsets(name, [SourceOffset(found["partition"], moved)])
    assert connect.offsets(name) == [{"partition": found["partition"], "offset": moved}]
    connect.patch_offsets(name, [SourceOffset(found["partition"], None)])
    assert connect.offsets(name) == []
    connect.patch_offsets(name, [SourceOffset(found["partition"], found["offset"])])
    connect.resume(name)
    assert connect.wait_running(name).running
    with captured.connection() as connection:
        connection.execute("INSERT INTO public.verbs VALUES (2, 'two')")
    keys = [r.key for r in captured.delivered()["verbs.public.verbs"][0]]
    assert keys == ['{"id":1}', '{"id":2}']


@pytest.mark.all
def test_topics_plugins_pause_restart(captured: LiveSource) -> None:
    connect, name = captured.connect, "verbs-capture"
    assert "verbs.public.verbs" in connect.topics(name)
    assert connect.topics("nobody") == []
    assert "io.debezium.connector.postgresql.PostgresConnector" in {p.class_name for p in connect.plugins()}
    connect.pause(name)
    connect.resume(name)
    connect.restart(name)
    assert connect.wait_running(name).details[0].worker
    assert "database.password" in connect.password_keys("io.debezium.connector.postgresql.PostgresConnector")


@pytest.mark.all
def test_a_connector_may_be_created_stopped(captured: LiveSource) -> None:
    with captured.settings():
        config = capture_config(replace(captured, name="born_stopped").source(["public.verbs"]))
    captured.connect.create(config["name"], config, initial_state="STOPPED")
    assert captured.connect.stop(config["name"]).state == "STOPPED"
    with pytest.raises(ServiceError, match="already exists"):
        captured.connect.create(config["name"], {**config, "heartbeat.interval.ms": "1"})
    captured.connect.create(config["name"], config)  # asked again, as after an answer that came too late
    captured.connect.delete(config["name"])
    assert captured.connect.status(config["name"]) is None


def test_a_placeholder_reaches_the_secrets_and_nothing_else(captured: LiveSource) -> None:
    """Connect resolves them for everybody whom it lets in: what is no secret of a source stays shut."""
    secrets, outside = captured.home.secrets, captured.home.root / "outside"
    outside.mkdir()
    for folder in (secrets, outside):
        (folder / "canary").write_text("key=sings")
    (outside / "link").symlink_to(secrets)
    shut = [
        *(f"${{dir:{folder}:canary}}" for folder in (outside, f"{secrets}/../outside")),
        *(f"${{file:{folder}/canary:key}}" for folder in (outside, f"{secrets}/../outside")),
        *(
            "${file:/etc/passwd:root}",
            "${dir:/proc/self:environ}",
            "${env:PATH}",
            "${env:HOME}",
            f"${{dir:{outside}/link:canary}}",
        ),
    ]
    assert [way for way in shut if value_of(captured, way) not in (way, None)] == []
    assert value_of(captured, f"${{dir:{secrets}:canary}}") == "key=sings"
    assert value_of(captured, f"${{file:{secrets}/canary:key}}") == "sings"


def value_of(live: LiveSource, placeholder: str) -> str | None:
    """What a config's value became in the answer to its validation; None: it was refused."""
    config = {"connector.class": MIRROR, "name": "canary", "target.cluster.alias": "b", "source.cluster.alias": placeholder}
    place = f"{live.connect.url}/connector-plugins/{MIRROR.rpartition('.')[2]}/config/validate"
    answer = httpx.put(place, json=config, trust_env=False, timeout=60)
    if answer.is_error:
        return None
    values = {each["value"]["name"]: each["value"]["value"] for each in answer.json()["configs"]}
    return str(values["source.cluster.alias"])
