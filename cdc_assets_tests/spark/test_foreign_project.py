"""A chain as a foreign Dagster project runs it: by a Component, each step in a process of its own, on a real broker and Spark."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_assets_tests.support.foreign_project import ForeignProject, create_project
from cdc_assets_tests.support.lake.readings import SOURCE, send
from cdc_assets_tests.support.lake.topics import Broker
from cdc_assets_tests.support.page_blocks import blocks_of

pytestmark = pytest.mark.all

CHAIN = ("cdc_topic_feeds", "cdc_bronze_feeds", "cdc_silver_feeds", "gold__newest_reading")
"""The last is the project's own, behind silver."""
OF_THE_PAGE = {"shop": "feeds", "order": "reading"}


@pytest.mark.spark
def test_checks_gate_under_the_multiprocess_executor_whatever_the_hash_seed(
    foreign_python: Path, remote: str, kafka: str, tmp_path: Path
) -> None:
    topic = Broker(kafka).topic()
    lake = tmp_path / "lake"
    places = {"CDC_LAKE": str(lake), "CDC_LAKE_BOOTSTRAP": kafka, "CDC_SPARK_REMOTE": remote}
    project = create_project(tmp_path / "lakehouse", python=foreign_python, **places)
    project.add_source("feeds", SOURCE.format(topic=topic))
    (project.defs / "gold.py").write_text(in_words_of(OF_THE_PAGE, blocks_of("library.md", "python")["gold.py"]))
    seen = []
    for seed, key in (("1", 1), ("2", 2), ("random", 3)):
        send(kafka, topic, key)
        if key == 3:
            double_a_record(lake / "bronze" / "feeds")
        done = materialize(project, seed)
        events = events_of(project, done)
        seen.append(checks_by_step(events))
        in_order = [step for step in started(events) if step in CHAIN]
        assert "will proceed without gating" not in done
        assert in_order == [*CHAIN][: 2 if key == 3 else 4], done
        if key != 3:
            assert newest_seen(events) == key, "the project's own asset read another silver"
        assert_gated(events)
    assert seen[0] == seen[1]
    assert {"record_parity"} in seen[2].values()
    assert sorted(row["id"] for row in DeltaTable(lake / "silver" / "feeds" / "readings").to_pyarrow_table().to_pylist()) == [
        1,
        2,
    ]


def in_words_of(names: dict[str, str], text: str) -> str:
    """A page's block for the source of this test."""
    for old, new in names.items():
        text = text.replace(old, new)
    return text


def newest_seen(events: list[dg.DagsterEvent]) -> Any:
    (made,) = (e for e in events if e.is_step_materialization and e.asset_key == dg.AssetKey(["gold", "newest_reading"]))
    return made.step_materialization_data.materialization.metadata["id"].value


def double_a_record(bronze: Path) -> None:
    """What no append of ours does: one record twice, so that bronze holds more than its topic."""
    table = DeltaTable(bronze)
    write_deltalake(bronze, table.to_pyarrow_table().slice(0, 1), mode="append")


def materialize(project: ForeignProject, seed: str) -> str:
    """Topic, bronze and silver with their checks, by the project's own default executor; what was printed."""
    selection = 'key:"topic/*" or key:"bronze/*" or key:"silver/*" or key:"gold/*"'
    arguments = ["asset", "materialize", "-m", "lakehouse.definitions", "--select", selection]
    if seed != "random":
        # All processes have one seed then, however they are started; this start costs a third.
        config = {"multiprocess": {"start_method": {"forkserver": {}}}}
        arguments += ["--config-json", json.dumps({"execution": {"config": config}})]
    done = project.python_module("dagster", *arguments, PYTHONHASHSEED=seed)
    return done.stdout + done.stderr


def events_of(project: ForeignProject, printed: str) -> list[dg.DagsterEvent]:
    with project.instance() as instance:
        runs = instance.get_runs(limit=1)
        assert runs, printed
        (run,) = runs
        return [entry.dagster_event for entry in instance.all_logs(run.run_id) if entry.dagster_event is not None]


def started(events: list[dg.DagsterEvent]) -> list[str]:
    return [event.step_key or "" for event in events if event.event_type == dg.DagsterEventType.STEP_START]


def evaluations(events: list[dg.DagsterEvent]) -> list[tuple[int, str, Any]]:
    kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
    return [(at, e.step_key or "", e.asset_check_evaluation_data) for at, e in enumerate(events) if e.event_type == kind]


def checks_by_step(events: list[dg.DagsterEvent]) -> dict[str, set[str]]:
    found = defaultdict(set)
    for _, step, evaluation in evaluations(events):
        found[step].add(evaluation.check_name)
    return dict(found)


def assert_gated(events: list[dg.DagsterEvent]) -> None:
    """Each check ran after its own asset's step, and before the next layer's began."""
    begun = {e.step_key: at for at, e in enumerate(events) if e.event_type == dg.DagsterEventType.STEP_START}
    for at, _, evaluation in evaluations(events):
        layer = evaluation.asset_key.path[0]
        place = CHAIN.index(f"cdc_{layer}_feeds")
        assert begun[CHAIN[place]] < at, evaluation
        if later := begun.get(CHAIN[place + 1]) if place + 1 < len(CHAIN) else None:
            assert at < later, f"{evaluation.check_name} of {layer} came after {CHAIN[place + 1]} had begun"
