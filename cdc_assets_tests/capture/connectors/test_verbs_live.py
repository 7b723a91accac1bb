"""diff, apply, get, describe, stop, offsets, resume, restart on a real worker; the database's password is the canary."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import dagster as dg
import httpx
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.capture_assets import build_connector_asset
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry.display_text import in_markdown
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.references import SecretRef
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.clusters import forget, until
from cdc_assets_tests.support.live.live_source import NAME


@pytest.fixture(scope="module")
def cdc(make_cdc: Callable[[str], Cdc]) -> Iterator[Cdc]:
    cdc = make_cdc("clerk")
    cdc.make_table()
    yield cdc
    cdc.lake.connect.delete("clerk-mirror")
    for name in ("clerk-capture", "foreign"):
        cdc.live.connect.delete(name)


def test_diff_apply_and_only_differences(cdc: Cdc) -> None:
    foreign = {
        "name": "foreign",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "target.cluster.bootstrap.servers": cdc.live.bootstrap,
    }
    cdc.live.connect.put_config("foreign", foreign)
    shown = cdc("diff", code=1)
    assert "--- clerk-capture" in shown
    assert "+heartbeat.interval.ms=10000" in shown
    cdc("apply", "--dry-run")
    assert "clerk-capture" not in cdc.live.connect.connectors()
    assert [row["summary"] for row in cdc.json("apply")] == ["created", "created"]
    assert [row["summary"] for row in cdc.json("apply")] == ["unchanged", "unchanged"]
    cdc("diff")
    cdc.declare("public.clerk", heartbeat="5s")
    capture, mirror = cdc.json("diff", code=1)
    assert capture["changes"] == [{"key": "heartbeat.interval.ms", "current": "10000", "declared": "5000"}]
    assert mirror["changes"] == []
    assert [row["summary"] for row in cdc.json("apply")] == ["changed", "unchanged"]
    assert cdc.live.connect.config("foreign") == foreign


def test_a_config_that_the_plugin_refuses_is_not_applied(cdc: Cdc, monkeypatch: pytest.MonkeyPatch) -> None:
    before = cdc.live.connect.config("clerk-capture")
    monkeypatch.setenv("CDC_CONNECT_SECRETS", "/nowhere")
    (capture, _) = cdc.json("diff", code=2)
    assert capture["summary"] == "refused"
    assert "database.password" in str(capture["refusal"]) or "database.hostname" in str(capture["refusal"])
    failed, _ = cdc.json("apply", code=1)
    assert "nothing was applied" in failed["error"]
    assert cdc.live.connect.config("clerk-capture") == before


@pytest.mark.all
def test_get_shows_what_failed_first_and_what_is_foreign(cdc: Cdc) -> None:
    cdc.live.connect.stop("clerk-capture")
    rows = {row["name"]: row for row in cdc.json("get", "connectors")}
    order = [name for name in rows if name in ("clerk-capture", "clerk-mirror", "foreign")]
    assert order[0] == "clerk-capture"
    assert rows["clerk-capture"]["state"] == "STOPPED"
    assert rows["clerk-mirror"]["tasks"] == "1/1"
    assert rows["foreign"]["source"] == "(foreign)"
    assert "STOPPED" in cdc("get", "connectors", "clerk")
    assert "name: clerk-capture" in cdc("get", "connectors", "-o", "yaml")
    assert "PostgresConnector" in cdc("get", "connectors", "-o", "wide")
    held = cdc("resume", "clerk-capture")
    assert "RUNNING" in held
    (mirror,) = cdc.json("get", "mirrors", "clerk")
    assert (mirror["state"], mirror["table"]) == ("RUNNING", "clerk")
    topics = cdc.json("get", "topics", "clerk")
    assert {row["topic"] for row in topics} == {"clerk.public.clerk", "core.clerk.public.clerk"}
    (table,) = cdc.json("get", "tables", "clerk")
    assert table["error"] is None


@pytest.mark.all
def test_offsets_only_when_stopped(cdc: Cdc) -> None:
    cdc.live.delivered()
    assert "cdc stop clerk-capture" in cdc("offsets", "reset", "clerk-capture", code=1)
    cdc("stop", "clerk-capture")
    found = cdc.json("offsets", "get", "clerk-capture")
    assert cdc.json("offsets", "reset", "clerk-capture", "--dry-run")["after"] == []
    assert cdc.json("offsets", "get", "clerk-capture") == found
    assert cdc.json("offsets", "reset", "clerk-capture")["after"] == []
    restored = cdc.json("offsets", "set", "clerk-capture", "-f", "-", stdin=json.dumps(found))
    assert restored["after"] == found
    assert "no connector nobody" in cdc("offsets", "get", "nobody", code=1)
    assert "RUNNING" in cdc("resume", "clerk-capture")


@pytest.mark.all
def test_pause_resume_and_restart(cdc: Cdc) -> None:
    name = "clerk-mirror"
    assert "would pause, is RUNNING" in cdc("pause", name, "--dry-run")
    (paused,) = cdc.json("pause", name)
    assert (paused["verb"], paused["error"]) == ("pause", None)
    until(lambda: "PAUSED" in str(cdc.lake.connect.status(name)))
    assert cdc.json("resume", name)[0]["tasks"] == ["RUNNING"]
    assert cdc.json("restart", name, "--all")[0]["tasks"] == ["RUNNING"]
    (nobody,) = cdc.json("restart", "nobody", code=1)
    assert nobody["error"].startswith("no connector nobody on core or lake Connect")


@pytest.mark.all
def test_what_a_mirror_has_lost_is_mended_by_one_command(cdc: Cdc) -> None:
    topic, platform = "clerk.public.clerk", Platform()
    cdc.json("get", "mirrors", "clerk")
    cdc("stop", "clerk-mirror")
    with cdc.live.connection() as connection:
        connection.execute("INSERT INTO public.clerk VALUES (2, 'two')")
    end = cdc.live.delivered()[topic][0][-1].offset + 1
    forget(cdc.live.bootstrap, topic, end)
    (mirror,) = cdc.json("get", "mirrors", "clerk")
    assert (mirror["copy"], mirror["repair"]) == ("lost", f"cdc repair mirror {topic}")
    cdc("resume", "clerk-mirror")
    planned = cdc.json("repair", "mirror", topic, "--dry-run")
    assert planned["steps"][0] == "read table public.clerk again: cdc onboard clerk public.clerk --again"
    assert planned["after"]["state"] == "lost"
    assert cdc.json("repair", "mirror", topic)["after"]["repair"] is None
    assert cdc.json("repair", "mirror", topic)["steps"] == []
    lake, copy = platform.lake_kafka(), f"core.{topic}"
    until(lambda: "two" in str([record.value for record in lake.records(copy, lake.states([copy])[copy].ranges)]))


def test_a_secret_is_found_where_the_source_says_and_the_worker_allows(cdc: Cdc, tmp_path: Path) -> None:
    secrets, connect = cdc.live.home.secrets, cdc.live.connect
    (secrets / "own.properties").write_text(f"shop={cdc.live.home.secret(NAME)}\n")
    (tmp_path / "own.properties").write_text(f"shop={cdc.live.home.secret(NAME)}\n")
    source = cdc.live.source(["public.clerk"])
    refused = []
    for place in (
        {"file": f"{secrets}/own.properties", "key": "shop"},
        {"env": "CDC_SECRET_LIVE"},
        {"file": f"{tmp_path}/own.properties", "key": "shop"},
        {"env": "PATH"},
    ):
        password = SecretRef.model_validate({"secret": NAME, "on_connect": place})
        moved = source.model_copy(update={"database": source.database.model_copy(update={"password": password})})
        refused.append(bool(connect.validate(capture_config(moved))))
    (secrets / "own.properties").unlink()
    assert refused == [False, False, True, True]


def test_the_password_is_nowhere(cdc: Cdc) -> None:
    canary = cdc.live.home.secret(NAME)
    assert len(canary) > 8
    cdc.declare("public.clerk", heartbeat="7s")
    source = load_source(cdc.folder / "clerk.yaml")
    with dg.DagsterInstance.ephemeral() as instance:
        result = dg.materialize([build_connector_asset(source)], instance=instance, resources={"platform": PlatformResource()})
        assert result.success
        (shown,) = [made.metadata for made in result.asset_materializations_for_node("cdc_connector_clerk")]
        assert [row.data["state"] for row in shown["cdc/tasks"].records] == ["RUNNING"]
        assert shown["cdc/connect"].url == f"{cdc.live.connect.url}/connectors/clerk-capture/status"
        assert in_markdown("+heartbeat.interval.ms=7000") in shown["cdc/diff"].md_str
        events = "\n".join(map(repr, instance.all_logs(result.run_id)))
    said = [cdc("describe", "connector", "clerk-capture"), cdc("diff"), cdc("get", "connectors", "-o", "wide")]
    with httpx.Client(base_url=cdc.live.connect.url, trust_env=False) as rest:
        paths = ["", "/config", "/status", "/tasks", "/tasks-config", "/offsets", "/topics"]
        said += [rest.get(f"/connectors/clerk-capture{path}").text for path in paths]
        config = rest.get("/connectors/clerk-capture/config").json()
        said.append(rest.put("/connector-plugins/PostgresConnector/config/validate", json=config).text)
        assert config["database.password"].startswith("${dir:")
    logs = "".join(file.read_text(errors="replace") for file in cdc.live.home.root.rglob("*.log"))
    topics = _every_record(cdc.live.bootstrap) + _every_record(cdc.lake.bootstrap)
    assert "clerk-capture" in logs
    assert b"clerk-capture" in topics
    assert "cdc/slot" in events
    assert canary not in "\n".join(said) + logs + events
    assert canary.encode() not in topics


def _every_record(bootstrap: str) -> bytes:
    """Keys and values of all topics, Connect's own included."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "canary", "enable.partition.eof": True})
    topics = consumer.list_topics(timeout=60).topics
    wanted = [TopicPartition(t, p, OFFSET_BEGINNING) for t, about in topics.items() for p in about.partitions]
    wanted = [tp for tp in wanted if tp.topic not in ("__consumer_offsets", "__transaction_state")]
    consumer.assign(wanted)
    open_, found = {(tp.topic, tp.partition) for tp in wanted}, []
    while open_:
        for message in consumer.consume(1000, 1.0):
            if message.error():
                open_.discard((message.topic(), message.partition()))
            else:
                found += [message.key() or b"", message.value() or b""]
    consumer.close()
    return b"\n".join(found)
