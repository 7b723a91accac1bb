"""Which Spark `cdc up` starts: one JVM or a cluster, chosen once and remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.stack import component_plan
from cdc_assets.stack.components.spark_cluster import MASTER, WORKERS
from cdc_assets.stack.home import Home, read_json
from cdc_assets.stack.stack_errors import StackError


def names(home: Home) -> list[str]:
    return [
        component.name for component in component_plan.components(component_plan.load(home)) if component.name.startswith("spark")
    ]


def test_a_cluster_is_remembered_and_taken_back(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").create()
    component_plan.choose(home, environment={})
    assert names(home) == ["spark-connect"]
    component_plan.choose(home, spark="standalone", environment={})
    ports = read_json(home.config)["ports"]
    assert names(home) == [MASTER, *WORKERS, "spark-connect"]
    component_plan.choose(home, environment={})
    assert names(home) == [MASTER, *WORKERS, "spark-connect"]
    assert read_json(home.config)["ports"] == ports
    component_plan.choose(home, spark="local", environment={})
    assert names(home) == ["spark-connect"]


def test_connect_waits_for_the_cluster_and_is_stopped_before_it(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").create()
    parts = {
        part.name: part for part in component_plan.components(component_plan.choose(home, spark="standalone", environment={}))
    }
    assert parts["spark-connect"].needs == (MASTER, *WORKERS)
    assert {parts[name].needs for name in WORKERS} == {(MASTER,)}


def test_no_cluster_beside_a_spark_of_yours_and_none_of_another_kind(tmp_path: Path) -> None:
    home = Home(tmp_path / "home").create()
    with pytest.raises(StackError, match="unset CDC_SPARK_REMOTE"):
        component_plan.choose(home, spark="standalone", environment={"CDC_SPARK_REMOTE": "sc://spark.example.com:15002"})
    with pytest.raises(StackError, match="local or standalone"):
        component_plan.choose(home, spark="yarn", environment={})
    assert not home.config.exists()
