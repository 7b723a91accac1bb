"""Connectors that an operator keeps from git: the assets observe, diff and check them, and write nothing to Connect.

What Strimzi does is done here by hand: the rendered config is put under the name that it gives the connector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from cdc_assets import names
from cdc_assets.assets.chain import build_source_defs
from cdc_assets.checks.mirror import mirror_key
from cdc_assets.checks.volumetry import check_key
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform
from cdc_assets_tests.control.conftest import Cdc

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
        log = {"core": platform.core_kafka(), "lake": platform.lake_kafka()}
        topics = {cluster: names.connect_topics(cluster)["configs"] for cluster in log}
        return cls(configs, {c: dict(kafka.states([topics[c]])[topics[c]].ends) for c, kafka in log.items()})


@pytest.fixture
def cdc(make_cdc: Callable[[str], Cdc], tmp_path: Path) -> Iterator[Cdc]:
    cdc = make_cdc(NAME)
    with cdc.live.connection() as connection:
        connection.execute("CREATE TABLE public.by_git (id int PRIMARY KEY, v text)")
        connection.execute("INSERT INTO public.by_git SELECT n, 'v' FROM generate_series(1, 500) n")
    cdc.declare("public.by_git")
    file = cdc.folder / f"{NAME}.yaml"
    file.write_text(f"{file.read_text()}managed_by: gitops\n")
    _deploy(cdc, tmp_path)
    yield cdc
    cdc.live.connect.delete(CAPTURE)
    for name in (names.SHARED_MIRROR, f"{NAME}-mirror"):
        cdc.lake.connect.delete(name)
    file.unlink()


def _deploy(cdc: Cdc, folder: Path) -> None:
    """As Strimzi's operator does it with the manifests that `cdc render` writes."""
    clusters = {"core": cdc.live.bootstrap, "lake": cdc.lake.bootstrap}
    deployment: dict[str, Any] = {
        name: {"kafka": name, "connect": f"{name}-connect", "bootstrap": bootstrap} for name, bootstrap in clusters.items()
    }
    (folder / "deployment.yaml").write_text(yaml.safe_dump({**deployment, "authentication": "none"}))
    cdc("render", "--target", "strimzi", "--out", str(folder), "--deployment", str(folder / "deployment.yaml"))
    connector = yaml.safe_load((folder / f"strimzi/connectors/{CAPTURE}.yaml").read_text())
    spec = connector["spec"]
    capture = {"connector.class": spec["class"], "tasks.max": str(spec["tasksMax"]), **spec["config"]}
    assert capture["database.password"] == "${secrets:kafka/cdc-secrets:live}"
    cdc.live.connect.put_config(connector["metadata"]["name"], {"name": connector["metadata"]["name"], **capture})
    spec = yaml.safe_load((folder / "strimzi/mirror/cdc-mirror.yaml").read_text())["spec"]
    (mirror,) = spec["mirrors"]
    own = mirror["sourceConnector"]
    ends = {"source": mirror["source"], "target": spec["target"]}
    config = {
        "name": f"{ends['source']['alias']}->{ends['target']['alias']}.MirrorSourceConnector",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "tasks.max": str(own["tasksMax"]),
        "topics": mirror["topicsPattern"],
        "topics.exclude": mirror["topicsExcludePattern"],
        **{f"{end}.cluster.alias": about["alias"] for end, about in ends.items()},
        **{f"{end}.cluster.bootstrap.servers": about["bootstrapServers"] for end, about in ends.items()},
        **own["config"],
    }
    cdc.lake.connect.put_config(config["name"], config)
    cdc.live.connect.wait_running(CAPTURE)
    cdc.lake.connect.wait_running(config["name"])


def materialize(source: BaseSource, *layers: str) -> dg.ExecuteInProcessResult:
    """The assets of these layers, and the checks of connector and mirror."""
    defs = build_source_defs(source)
    keys = [dg.AssetKey(names.asset_key("connector", source))] if "connector" in layers else []
    keys += [dg.AssetKey(names.asset_key(la, source, t)) for la in layers if la != "connector" for t in source.tables]
    checks = [check_key("connector", source), *(mirror_key(source, table) for table in source.tables)]
    selection = dg.AssetSelection.assets(*keys).without_checks() | dg.AssetSelection.checks(*checks)
    chain = [asset for asset in (*(defs.assets or ()), *(defs.asset_checks or ())) if isinstance(asset, dg.AssetsDefinition)]
    with dg.DagsterInstance.ephemeral() as instance:
        resources = {"platform": Platform()}
        return dg.materialize(chain, selection=selection, instance=instance, resources=resources, raise_on_error=False)


def checks_of(result: dg.ExecuteInProcessResult) -> dict[str, tuple[bool, str]]:
    return {each.check_name: (each.passed, each.description or "") for each in result.get_asset_check_evaluations()}


def test_what_git_deploys_is_observed_and_never_written(cdc: Cdc) -> None:
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
    core, lake = platform.core_kafka(), platform.lake_kafka()
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
    (made,) = told.asset_materializations_for_node(f"connector_{NAME}")
    assert "+heartbeat.interval.ms=10000" in str(made.metadata["cdc/diff"].value)
    assert Deployed.now(cdc).configs == drifted.configs
