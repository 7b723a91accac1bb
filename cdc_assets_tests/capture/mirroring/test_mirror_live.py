"""Losses planted between two real clusters: MirrorMaker 2 goes on without a word, and the watcher says exactly what is gone."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from cdc_assets.capture.connectors.apply_connector import apply_connector
from cdc_assets.capture.connectors.declared_connectors import declared_connectors
from cdc_assets.capture.connectors.mirrormaker2 import mirror_config
from cdc_assets.capture.mirror_losses import MirrorState, mirror_states, plan, refuse_one_cluster, repair
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.name_conflicts import find_unmirrored
from cdc_assets.registry.source_declaration import TopicSource
from cdc_assets.registry.source_settings import Mirror
from cdc_assets_tests.support.live.cdc import Lake
from cdc_assets_tests.support.live.clusters import Clusters, captured, clusters_of, source, until
from cdc_assets_tests.support.live.live_source import LiveSource
from spark.record_formats import LARGE_HEADER, TOO_LARGE

WIDE = {"message.max.bytes": 1_000_000_000, "log_level": 0}
TOPICS = ("shrunk", "remade", "grown", "waits")
MIRROR = "web-mirror"


@pytest.fixture(scope="module")
def clusters(live: LiveSource, lake: Lake) -> Iterator[Clusters]:
    with clusters_of(live, lake) as both, pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDC_HOME", str(live.home.root))
        patch.setenv("CDC_CORE_BOOTSTRAP", live.bootstrap)
        patch.setenv("CDC_LAKE_BOOTSTRAP", lake.bootstrap)
        yield both


@pytest.fixture(scope="module")
def web(clusters: Clusters) -> TopicSource:
    """Four topics of three records each, copied whole."""
    declared = source("web", *TOPICS)
    for topic in TOPICS:
        clusters.create(topic, **({"retention.ms": "3600000"} if topic == "waits" else {}))
        clusters.send(topic, ["a", "b", "c"])
    apply_connector(clusters.platform.lake_connect(), mirror_config(declared))
    until(lambda: all(clusters.copied(f"core.{topic}") == ["a", "b", "c"] for topic in TOPICS))
    until(lambda: {state.state for state in mirror_states(Chain(clusters.platform, declared))} == {"ok"})
    return declared


def state_of(clusters: Clusters, web: TopicSource, topic: str) -> MirrorState:
    return next(state for state in mirror_states(Chain(clusters.platform, web)) if state.topic == topic)


def test_what_was_removed_before_it_was_copied_is_named_and_stays_named(clusters: Clusters, web: TopicSource) -> None:
    connect = clusters.platform.lake_connect()
    connect.stop(MIRROR)
    clusters.send("shrunk", ["d", "e", "f", "g"])
    assert (state_of(clusters, web, "shrunk").state, state_of(clusters, web, "shrunk").repair) == ("halted", "")
    clusters.delete_records("shrunk", 5)
    found = state_of(clusters, web, "shrunk")
    assert [(f.kind, f.partition, f.lost) for f in found.findings if f.red] == [("lost", 0, (3, 4))]
    assert found.repair == "cdc repair mirror shrunk"
    connect.resume(MIRROR)
    connect.wait_running(MIRROR)
    # The fault itself: MirrorMaker goes on as if nothing had been between c and f.
    until(lambda: clusters.copied("core.shrunk") == ["a", "b", "c", "f", "g"])
    assert state_of(clusters, web, "shrunk").findings == tuple(f for f in found.findings if f.red)


def test_a_loss_between_two_looks_is_found_after_mirrormaker_has_jumped(clusters: Clusters, web: TopicSource) -> None:
    connect = clusters.platform.lake_connect()
    assert repair(clusters.platform, plan(clusters.platform, [web], "shrunk"), print).state == "ok"
    connect.stop(MIRROR)
    clusters.send("shrunk", ["h", "i", "j"])
    clusters.delete_records("shrunk", 9)
    connect.resume(MIRROR)
    until(lambda: clusters.copied("core.shrunk")[-2:] == ["g", "j"])
    until(lambda: [(f.kind, f.lost) for f in state_of(clusters, web, "shrunk").findings] == [("lost", (7, 8))])


@pytest.mark.all
def test_a_loss_before_anybody_had_looked_is_red_and_retention_of_what_is_copied_is_not(clusters: Clusters) -> None:
    """The topic of a connector of ours begins at offset 0: what is gone of it before the first look was green."""
    late = captured("late", "public.gone", "public.worn", "public.empty")
    gone, worn, empty = (names.topic(late, table) for table in late.tables)
    for topic in (gone, worn, empty):
        clusters.create(topic)
        clusters.send(topic, ["a", "b", "c", "d"])
    clusters.delete_records(gone, 2)
    clusters.delete_records(empty, 4)
    apply_connector(clusters.platform.lake_connect(), mirror_config(late))
    until(lambda: clusters.copied(f"core.{worn}") == ["a", "b", "c", "d"] and clusters.copied(f"core.{gone}") == ["c", "d"])
    clusters.delete_records(worn, 2)
    found = {state.topic: state for state in mirror_states(Chain(clusters.platform, late))}
    lost = {topic: [(f.kind, f.lost) for f in state.findings] for topic, state in found.items()}
    assert lost == {gone: [("lost", (0, 1))], worn: [], empty: [("lost", (0, 3))]}
    assert found[gone].repair == f"cdc repair mirror {gone}"
    # Without the table, which is none of a database here: the topic is taken for whole as it is.
    chosen = plan(clusters.platform, [late], gone, snapshot=False)
    assert repair(clusters.platform, chosen, print).findings == ()
    assert {state.topic: bool(state.repair) for state in mirror_states(Chain(clusters.platform, late))} == {
        gone: False,
        worn: False,
        empty: True,
    }


def test_a_record_that_mirrormaker_cannot_send_is_passed_by_one_command(clusters: Clusters) -> None:
    """Its place, size and digest stay; the records before it, which MirrorMaker has read and not written, come too."""
    declared = source("heavy", "heavy")
    clusters.create("heavy")
    apply_connector(clusters.platform.lake_connect(), mirror_config(declared))
    clusters.send("heavy", ["a"])
    until(lambda: clusters.copied("core.heavy") == ["a"])
    connect = clusters.platform.lake_connect()
    connect.stop("heavy-mirror")
    clusters.send("heavy", ["b"])
    value = b"x" * 40_000_000
    large = Producer({"bootstrap.servers": clusters.platform.core_bootstrap, "compression.type": "zstd", **WIDE})
    large.produce("heavy", value, key=b"the key", partition=0)
    assert large.flush(60) == 0
    clusters.send("heavy", ["c"])
    connect.resume("heavy-mirror")
    until(lambda: (status := connect.status("heavy-mirror")) is not None and status.meets_it_again, 240)
    chosen = plan(clusters.platform, [declared], "heavy")
    assert [(each.offset, each.size) for each in chosen.large] == [(2, len(value) + len(b"the key"))]
    said: list[str] = []
    repair(clusters.platform, chosen, said.append)
    until(lambda: clusters.copied("core.heavy")[-1:] == ["c"])
    a, b, sentence, c = clusters.copied("core.heavy")
    assert (a, b, c) == ("a", "b", "c")
    assert sentence.endswith(f"sha256 of its value {hashlib.sha256(value).hexdigest()}")
    assert sentence.startswith(f"{TOO_LARGE}: 40000007 bytes, above ")
    lake = clusters.platform.lake_kafka()
    (_, _, held, _) = lake.records("core.heavy", lake.states(["core.heavy"])["core.heavy"].ranges)
    assert (held.key, held.headers) == (b"the key", ((LARGE_HEADER, sentence.encode()),))
    assert [state.state for state in mirror_states(Chain(clusters.platform, declared))] == ["ok"]
    assert plan(clusters.platform, [declared], "heavy").steps == []


@pytest.mark.usefixtures("web")
def test_names_that_mirrormaker_keeps_for_itself(clusters: Clusters) -> None:
    """A topic `heartbeats` is copied by its own mirror alone, and whatever the registry refuses has no copy."""
    copied = ("heartbeats", "public.heartbeats", "orders.internal", "orders-internal", "by.lake")
    refused = ("lake.orders", "by.lake.orders", "mm2-events.internal", "orders.checkpoints.internal", "__audit", ".hidden")
    topics = dict(enumerate((*copied, *refused)))
    form = {"envelope": "json", "columns": {"id": "text"}}
    tables = [{"name": f"t{number}", "topic": topic, **form} for number, topic in topics.items()]
    kept = TopicSource.model_validate({"source": "kept", "kind": "topics", "tables": tables})
    assert {topics[index] for index, _ in find_unmirrored(kept)} == {*refused}
    for topic in topics.values():
        clusters.create(topic)
        clusters.send(topic, ["a", "b"])
    apply_connector(clusters.platform.lake_connect(), mirror_config(kept))
    until(lambda: all(clusters.copied(f"core.{topic}") == ["a", "b"] for topic in copied))
    # Five seconds is how often a mirror looks for topics: the others have looked since.
    clusters.send("shrunk", ["later"])
    until(lambda: clusters.copied("core.shrunk")[-1:] == ["later"])
    there = clusters.platform.lake_kafka().states([f"core.{topic}" for topic in refused])
    assert [name for name, state in there.items() if state.ends] == []
    assert clusters.copied("core.heartbeats") == ["a", "b"]
    clusters.platform.lake_connect().delete("kept-mirror")


def test_retention_of_what_is_copied_is_no_loss(clusters: Clusters, web: TopicSource) -> None:
    clusters.send("grown", ["d", "e"])
    until(lambda: clusters.copied("core.grown") == ["a", "b", "c", "d", "e"])
    clusters.delete_records("grown", 5)
    assert state_of(clusters, web, "grown").state == "ok"


@pytest.mark.all
def test_records_that_expire_before_they_are_copied_are_warned_of(clusters: Clusters, web: TopicSource) -> None:
    connect = clusters.platform.lake_connect()
    connect.stop(MIRROR)
    written = time.time() - 3000
    clusters.send("waits", ["d"], timestamp_ms=int(written * 1000))
    (warning,) = [f for f in state_of(clusters, web, "waits").findings if f.kind == "expiring"]
    assert not warning.red
    left = float(warning.message.split("expires in ")[1].split(" s")[0])
    assert written + 3600 - time.time() - 1 <= left <= 600
    connect.resume(MIRROR)
    until(lambda: state_of(clusters, web, "waits").state == "ok")


def test_a_topic_made_again_is_red_and_repaired_by_copying_it_again(clusters: Clusters, web: TopicSource) -> None:
    connect = clusters.platform.lake_connect()
    connect.stop(MIRROR)
    clusters.delete("remade")
    assert state_of(clusters, web, "remade").state == "absent"
    clusters.create("remade")
    clusters.send("remade", ["k", "l", "m", "n"])
    assert state_of(clusters, web, "remade").state == "recreated"
    connect.resume(MIRROR)
    # The fault itself: the old topic's offset hides the new one's first records.
    until(lambda: clusters.copied("core.remade") == ["a", "b", "c", "n"])
    chosen = plan(clusters.platform, [web], "remade")
    told = ["stop web-mirror", "remade is not read again", "take the topic as it is now for the whole one"]
    assert [step.split(",")[0].split(":")[0] for step in chosen.steps] == told
    assert repair(clusters.platform, chosen, print).state in ("ok", "copying")
    until(lambda: clusters.copied("core.remade") == ["a", "b", "c", "n", "k", "l", "m", "n"])
    until(lambda: state_of(clusters, web, "remade").state == "ok")


def test_a_partition_more_is_red_until_it_is_repaired(clusters: Clusters, web: TopicSource) -> None:
    clusters.grow("grown", 2)
    found = state_of(clusters, web, "grown")
    assert [(f.kind, f.partition) for f in found.findings] == [("partitions", 1)]
    assert repair(clusters.platform, plan(clusters.platform, [web], "grown"), print).state == "ok"
    with pytest.raises(RefusalError, match="no source mirrors topic nothing; mirrored are: shrunk, remade, grown, waits"):
        plan(clusters.platform, [web], "nothing")


@pytest.mark.all
def test_the_identity_policy_keeps_names(clusters: Clusters, web: TopicSource) -> None:
    same = source("same", "plain", replication="identity")
    clusters.create("plain")
    clusters.send("plain", ["a"])
    apply_connector(clusters.platform.lake_connect(), mirror_config(same))
    until(lambda: clusters.copied("plain") == ["a"])
    until(lambda: [state.state for state in mirror_states(Chain(clusters.platform, same))] == ["ok"])


@pytest.mark.all
def test_heartbeats_come_and_a_groups_place_is_told(clusters: Clusters) -> None:
    about = {"heartbeats": "1s", "checkpoints": {"groups": ["readers"], "every": "1s", "sync_offsets": True}}
    told = source("told", "plans").model_copy(update={"mirror": Mirror.model_validate(about)})
    clusters.create("plans")
    clusters.send("plans", ["a", "b", "c"])
    clusters.read("plans", group="readers", records=2)
    for declared in declared_connectors([told]):
        apply_connector(clusters.platform.lake_connect(), declared.config)
    states = clusters.platform.lake_connect().overview()
    assert {names for names in states if names.startswith("told-")} == {"told-mirror", "told-checkpoints", "told-heartbeats"}
    lake = clusters.platform.lake_kafka()
    until(lambda: any(state.ends[0] for state in lake.states(["heartbeats"]).values()))
    # Never behind what the group has not read: whoever goes on there misses nothing.
    until(lambda: 0 < clusters.place("core.plans", group="readers") <= 2)


def test_one_cluster_is_no_mirror(clusters: Clusters) -> None:
    core = clusters.platform.core_kafka("core")
    refuse_one_cluster(core, clusters.platform.lake_kafka())
    with pytest.raises(RefusalError, match="are one cluster .* would loop"):
        refuse_one_cluster(core, core)
