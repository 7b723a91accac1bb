"""Connectors that an operator keeps from git: the assets observe, diff and check them, and write nothing to Connect.

What Strimzi does is done here by hand: the rendered config is put under the name that it gives the connector.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import dagster as dg
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from cdc_assets.capture import mirror_losses as mirrors
from cdc_assets.capture.incarnations.server_facts import Memory, Opening
from cdc_assets.capture.onboarding.onboarding_state import Journal
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.check_specs import CONNECTOR_RUNNING, NOTHING_LOST
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.registry import names
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets_tests.capture.connectors.git_repository import Repository
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.onboarding.drive import cdc as started

pytestmark = pytest.mark.all

NAME = "by_git"
CAPTURE = names.kubernetes_name(f"{NAME}-capture")
TOPIC = f"{NAME}.public.by_git"


@dataclass
class Deployed:
    """What Connect holds: each connector's config, and how often anybody has written to Connect."""

    configs: dict[str, Any]
    written: dict[str, dict[int, int]]

    @classmethod
    def now(cls, cdc: Cdc) -> Deployed:
        platform = Platform()
        configs = {name: about.config for c in (cdc.live.connect, cdc.lake.connect) for name, about in c.overview().items()}
        log = {"core": platform.core_kafka("core"), "lake": platform.lake_kafka()}
        topics = {cluster: names.connect_topics(cluster)["configs"] for cluster in log}
        return cls(configs, {c: dict(kafka.states([topics[c]])[topics[c]].ends) for c, kafka in log.items()})


@pytest.fixture(scope="module")
def cdc(make_cdc: Callable[[str], Cdc]) -> Iterator[Cdc]:
    cdc = make_cdc(NAME)
    with cdc.live.connection() as connection:
        for table in ("by_git", "by_git2"):
            connection.execute(f"CREATE TABLE public.{table} (id int PRIMARY KEY, v text)")
            connection.execute(f"INSERT INTO public.{table} SELECT n, 'v' FROM generate_series(1, 500) n")
    declare(cdc, "public.by_git")
    yield cdc
    cdc.live.connect.delete(CAPTURE)
    for name in (names.SHARED_MIRROR, f"{NAME}-mirror"):
        cdc.lake.connect.delete(name)
    for file in cdc.folder.glob(f"{NAME}.yaml*"):
        file.unlink()


@pytest.fixture(scope="module")
def repository(cdc: Cdc, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    found = Repository(cdc, tmp_path_factory.mktemp("repository"), CAPTURE)
    found.render()
    assert "is not on Connect at" in str(cdc.json("apply", NAME, code=1)[0]["error"])
    found.sync()
    return found


def declare(cdc: Cdc, *tables: str, more: str = "") -> None:
    cdc.declare(*tables)
    file = cdc.folder / f"{NAME}.yaml"
    file.write_text(f"{file.read_text()}managed_by: gitops\n{more}")


def topics(bootstrap: str) -> set[str]:
    """The oracle: what the broker itself lists."""
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).topics)


def materialize(source: BaseSource, *layers: str) -> dg.ExecuteInProcessResult:
    """The assets of these layers, and the checks of connector and mirror."""
    defs = build_source_defs(source)
    keys = [dg.AssetKey(names.asset_key("connector", source))] if "connector" in layers else []
    keys += [dg.AssetKey(names.asset_key(la, source, t)) for la in layers if la != "connector" for t in source.tables]
    checks = [CONNECTOR_RUNNING.key(source), *NOTHING_LOST.keys(source)]
    selection = dg.AssetSelection.assets(*keys).without_checks() | dg.AssetSelection.checks(*checks)
    chain = [asset for asset in (*(defs.assets or ()), *(defs.asset_checks or ())) if isinstance(asset, dg.AssetsDefinition)]
    with dg.DagsterInstance.ephemeral() as instance:
        resources = {"platform": PlatformResource()}
        return dg.materialize(chain, selection=selection, instance=instance, resources=resources, raise_on_error=False)


def checks_of(result: dg.ExecuteInProcessResult) -> dict[str, tuple[bool, str]]:
    return {each.check_name: (each.passed, each.description or "") for each in result.get_asset_check_evaluations()}


def test_what_git_deploys_is_observed_and_never_written(cdc: Cdc, repository: Repository) -> None:
    source, before = load_source(cdc.folder / f"{NAME}.yaml"), Deployed.now(cdc)
    result = materialize(source, "connector", "topic", "mirror")
    assert result.success
    assert {name: passed for name, (passed, _) in checks_of(result).items()} == {"connector_running": True, "nothing_lost": True}
    cdc("diff", NAME)
    assert f"{CAPTURE}: unchanged, managed_by: gitops, RUNNING, 1 task" in cdc("apply", NAME)
    for verb in ("stop", "pause", "resume"):
        assert "managed_by: gitops, nothing was written" in cdc(verb, CAPTURE, code=1)
    assert "cdc onboard by_git TABLE… --watch" in cdc("onboard", NAME, "public.by_git", "--again", code=1)
    assert f"restarts_{NAME}" not in [sensor.name for sensor in build_source_defs(source).sensors or ()]
    assert {row["name"]: row["state"] for row in cdc.json("get", "connectors", NAME)} == {
        CAPTURE: "RUNNING",
        names.SHARED_MIRROR: "RUNNING",
    }
    assert Deployed.now(cdc) == before
    platform = Platform()
    core, lake = platform.core_kafka("core"), platform.lake_kafka()
    here = sum(1 for _ in core.records(TOPIC, core.states([TOPIC])[TOPIC].ranges))
    copy = f"core.{TOPIC}"
    assert (here, sum(1 for _ in lake.records(copy, lake.states([copy])[copy].ranges))) == (500, 500)

    config = cdc.live.connect.config(CAPTURE) or {}
    cdc.live.connect.put_config(CAPTURE, {**config, "heartbeat.interval.ms": "7000"})
    cdc.live.connect.wait_running(CAPTURE)
    drifted = Deployed.now(cdc)
    assert "-heartbeat.interval.ms=7000\n+heartbeat.interval.ms=10000" in cdc("diff", NAME, code=1)
    capture, mirror = cdc.json("apply", NAME, code=1)
    assert (capture["summary"], capture["changed_keys"]) == ("differs", ["heartbeat.interval.ms"])
    assert "managed_by: gitops, nothing was written; commit what `cdc render" in capture["error"]
    assert mirror["summary"] == "unchanged"
    told = materialize(source, "connector")
    passed, description = checks_of(told)["connector_running"]
    assert not passed
    assert f"{CAPTURE} is not as declared (heartbeat.interval.ms)" in description
    (made,) = told.asset_materializations_for_node(f"cdc_connector_{NAME}")
    assert "+heartbeat.interval.ms=10000" in str(made.metadata["cdc/diff"].value)
    assert Deployed.now(cdc).configs == drifted.configs


def test_a_topic_that_git_declares_is_looked_at_and_never_made(cdc: Cdc, repository: Repository) -> None:
    declare(cdc, "public.by_git", "public.by_git2", more="topics: {retention: 200h}\n")
    source = load_source(cdc.folder / f"{NAME}.yaml")
    result = materialize(source, "topic")
    assert not result.success
    (failure,) = [event for event in result.all_events if event.event_type_value == "STEP_FAILURE"]
    told = str(failure.event_specific_data)
    assert f"topic {TOPIC}2 is not at {cdc.live.bootstrap}" in told
    assert "managed_by: gitops, nothing was written; commit what `cdc render" in told
    assert f"{TOPIC}2" not in topics(cdc.live.bootstrap)
    (seen,) = result.asset_materializations_for_node(f"cdc_topic_{NAME}")
    assert seen.metadata["cdc/differs"].value == "retention.ms is 604800000, declared is 720000000"
    asked = ConfigResource(ConfigResource.Type.TOPIC, TOPIC)
    admin = AdminClient({"bootstrap.servers": cdc.live.bootstrap})
    (found,) = admin.describe_configs([asked]).values()
    assert found.result()["retention.ms"].value == "604800000"
    declare(cdc, "public.by_git")


def wait_for(process: Any, step: str) -> None:
    def is_there() -> bool:
        assert process.poll() is None, process.communicate()
        running = Journal.of(NAME).running
        return running is not None and running.current == step

    until(is_there)


def test_a_table_is_taken_in_by_commits_under_the_name_that_the_connector_has_there(cdc: Cdc, repository: Repository) -> None:
    repository.render()
    repository.sync()
    declare(cdc, "public.by_git", "public.by_git2")
    asked = ("onboard", NAME, "public.by_git2", "--watch", "--deployment", str(repository.deployment))
    plan = cdc.json(*asked, "--out", ".", "--dry-run")
    commits = {row["step"]: row["commit"]["patch"] for row in plan if "commit" in row}
    assert list(commits) == ["topics", "connector"]
    process = started(*asked)
    for step, patch in commits.items():
        wait_for(process, step)
        git = ["git", "apply", "--unsafe-paths", "--directory", str(repository.folder), "-"]
        done = subprocess.run(git, input=patch, cwd=repository.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        repository.sync()
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert f"old and new tables in {CAPTURE}" in out
    assert f"{NAME}-capture" not in cdc.live.connect.connectors()
    kafka = Platform().core_kafka("core")
    records = kafka.records(f"{TOPIC}2", kafka.states([f"{TOPIC}2"])[f"{TOPIC}2"].ranges)
    assert {json.loads(record.key or b"")["id"] for record in records} == set(range(1, 501))
    result = materialize(load_source(cdc.folder / f"{NAME}.yaml"), "connector", "topic")
    assert {name: passed for name, (passed, _) in checks_of(result).items()}["connector_running"]
    cdc("diff", NAME)


def test_repair_and_removal_name_what_git_has_to_bring(cdc: Cdc, repository: Repository) -> None:
    mirrored, known = mirrors.load_seen_topics(NAME), Memory.of(NAME)
    mirrors.save(NAME, {**mirrored, TOPIC: mirrors.SeenTopic("of another topic")})
    known.opening = Opening("restored")
    known.save()
    before = Deployed.now(cdc)
    assert "managed_by: gitops, nothing was written" in cdc("repair", "mirror", TOPIC, code=1)
    assert "managed_by: gitops, nothing was written" in cdc("repair", "source", NAME, code=1)
    mirrors.save(NAME, mirrored)
    known.opening = None
    known.save()
    assert "take the tables out of the registry, and commit what `cdc render" in cdc("offboard", NAME, "public.by_git2", code=1)

    file = cdc.folder / f"{NAME}.yaml"
    told = cdc("remove", NAME, "--yes", "--delete", "topics,lake", code=1)
    assert f"connector {CAPTURE} at {cdc.live.connect.url} is managed_by: gitops, nothing was removed" in told
    assert f"rename the file that declares {NAME} to end in .removed, commit what `cdc render" in told
    assert (Deployed.now(cdc), file.exists()) == (before, True)
    file.rename(f"{file}.removed")
    repository.render()
    assert repository.manifests("KafkaConnector") == []
    repository.sync()
    left = cdc.json("remove", NAME, "--yes", "--delete", "topics", code=1)["left"]
    kept = [f"kubectl delete kafkatopic {names.kubernetes_name(topic)}" for topic in (TOPIC, f"{TOPIC}2")]
    assert [(trace["word"], trace["statement"]) for trace in left] == [("topics", statement) for statement in kept]
    with cdc.live.connection() as connection:
        slots = "SELECT slot_name FROM pg_replication_slots WHERE slot_name = 'cdc_by_git'"
        assert connection.execute(slots).fetchall() == []
        assert connection.execute("SELECT pubname FROM pg_publication WHERE pubname = 'cdc_by_git'").fetchall() == []
    assert {topic for topic in topics(cdc.live.bootstrap) if NAME in topic} == {TOPIC, f"{TOPIC}2"}
    assert {topic for topic in topics(cdc.lake.bootstrap) if NAME in topic} == set()
