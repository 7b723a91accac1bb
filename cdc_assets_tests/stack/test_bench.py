"""`cdc bench --here` on a running stack: it measures, compares its tables with what was sent, and leaves nothing behind."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.admin import AdminClient

from cdc_assets_tests.support.stack_commands import cdc
from cdc_assets_tests.support.stack_fixture import RunningStack
from cdc_assets_tests.support.stack_kafka import kafka_settings

pytestmark = [pytest.mark.stack, pytest.mark.all]


def test_a_trial_measures_and_leaves_nothing_behind(stack: RunningStack) -> None:
    before = {path.name for path in stack.home.root.iterdir()}
    asked = ("bench", "--here", "--scenario", "cycle-1k", "--rows", "3000", "--profile", "-o", "json")
    done = cdc(stack, *asked)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert (row["scenario"], row["system"], row["target"], row["met"], row["unit"]) == (
        *("1,000 into 3,000", "cdc_assets", None, None, "s"),
    )
    assert 0 < row["min_s"] <= row["median_s"] <= row["max_s"] < 300
    # A JVM that did this work has used a processor for it, and its calls were counted.
    assert row["cpu_s"] > 0.1
    assert row["profile"]["bronze"]["calls"]["ExecutePlan"] >= 1 <= row["profile"]["silver"]["calls"]["ExecutePlan"]
    assert any(name.endswith("runs") for name in row["profile"]["silver"]["gc"])
    admin = AdminClient(kafka_settings(stack.environment, "lake"))
    assert not [topic for topic in admin.list_topics(timeout=60).topics if topic.startswith("cdc_bench")]
    after = {path.name for path in stack.home.root.iterdir()}
    assert after - before <= {"locks"}
    assert not [*(stack.home.root / "locks").glob("*cdc_bench*")]


@pytest.mark.all
def test_a_year_of_commits_and_maintenance_leave_a_table_as_fast(stack: RunningStack) -> None:
    """In small: 30,000 commits, and what one run of each tells; the bench itself asks for 1.5 times."""
    done = cdc(stack, "bench", "--here", "--scenario", "year", "--rows", "3000", "-o", "json")
    assert done.returncode == 0, done.stderr
    found = {row["scenario"]: row["median_s"] for row in json.loads(done.stdout)}
    assert found.keys() == {
        "maintenance after 30,000 commits",
        *(f"{name} {when}" for name in ("cycle", "tick", "reconcile") for when in ("of a new table", "after 30,000 commits")),
    }
    for name in ("cycle", "tick", "reconcile"):
        assert found[f"{name} after 30,000 commits"] <= 3 * found[f"{name} of a new table"] + 1.0
