"""`CDC_JMX=on`: brokers, Connect and Spark serve figures of their own, and `cdc render` tells Prometheus where."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from ruamel.yaml import YAML

from cdc_assets.deploy.monitoring_files import prometheus_files
from cdc_assets.registry import settings
from cdc_assets.registry.loader import load_sources
from cdc_assets.stack import component_plan, supervisor
from cdc_assets.stack.declared_needs import jmx_sets, places_to_remember
from cdc_assets.stack.home import Home, read_json
from cdc_assets.stack.stack_errors import StackError
from cdc_assets_tests.support.own_stack import ELSEWHERE
from cdc_assets_tests.support.servers.prometheus_server import bring_prometheus, check_config
from cdc_assets_tests.support.stack_fixture import environment_of

SHOWN = {
    "core-kafka": "kafka_server_BrokerTopicMetrics_Count",
    "core-connect": "kafka_connect_connect_worker_metrics_connector_count",
    "spark-connect": "metrics_spark_driver_BlockManager_memory_memUsed_MB_Value",
}
OTHERS = {"CDC_POSTGRES_HOST": "127.0.0.1", "STORAGE_EMULATOR_HOST": "http://127.0.0.1:9"}


def scrape_jobs() -> dict[str, dict[str, str]]:
    """Of the rendered configuration: by job, the targets by their part."""
    text = prometheus_files(load_sources(settings.example_sources()))["prometheus/prometheus.yaml"]
    jobs = YAML(typ="safe").load(text)["scrape_configs"]
    return {
        job["job_name"]: {each.get("labels", {}).get("part", ""): each["targets"][0] for each in job["static_configs"]}
        for job in jobs
    }


def test_it_is_asked_for_and_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path).create()
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    monkeypatch.delenv("CDC_JMX", raising=False)
    assert (jmx_sets(), "jmx" in component_plan.jar_sets()) == ((), False)
    monkeypatch.setenv("CDC_JMX", "on")
    assert (jmx_sets(), "jmx" in component_plan.jar_sets()) == (("jmx",), True)
    assert places_to_remember(home)["CDC_JMX"] == "on"
    monkeypatch.setenv("CDC_JMX", "")
    assert (jmx_sets(), "CDC_JMX" in places_to_remember(home)) == ((), False)
    monkeypatch.setenv("CDC_JMX", "yes")
    with pytest.raises(StackError, match="CDC_JMX=yes: it is `on`, or empty"):
        jmx_sets()


def test_addresses_of_yours_are_scraped_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    assert [*scrape_jobs()] == ["cdc_assets"]
    monkeypatch.setenv("CDC_JMX_BROKER_1", "broker-1.example.org:9404")
    assert scrape_jobs()["cdc_jmx"] == {"broker-1": "broker-1.example.org:9404"}


@contextmanager
def stack(home: Home, given: dict[str, str]) -> Iterator[None]:
    with environment_of(home):
        os.environ.update({"CDC_JMX": "on", **given})
        supervisor.fetch_jars(supervisor.missing_jars())
        try:
            supervisor.start(home)
            supervisor.wait_healthy(home, seen=lambda _: None, timeout=400)
            yield
        finally:
            supervisor.stop(home)


@pytest.mark.all
@pytest.mark.stack
def test_each_jvm_serves_its_figures_on_this_machine(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    ours = {"CDC_CORE_BOOTSTRAP", "CDC_CORE_CONNECT", "CDC_SPARK_REMOTE"}
    with stack(home, {name: value for name, value in {**ELSEWHERE, **OTHERS}.items() if name not in ours}):
        os.environ["CDC_HOME"] = str(home.root)
        told = scrape_jobs()["cdc_jmx"]
        assert set(SHOWN) <= set(told)
        assert read_json(home.config)["jmx"] is True
        for part, figure in SHOWN.items():
            assert told[part].startswith("127.0.0.1:")
            text = httpx.get(f"http://{told[part]}/metrics", trust_env=False, timeout=60).text
            assert re.search(rf"^{figure}\b.* \d", text, re.MULTILINE), f"{part}: {text[:3000]}"
            assert "jvm_memory_used_bytes" in text
        folder = tmp_path / "monitoring"
        for name, text in prometheus_files(load_sources(settings.example_sources())).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        check_config(bring_prometheus(), folder / "prometheus")
