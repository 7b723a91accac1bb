"""`cdc bench --here` on a running stack: it measures, compares its tables with what was sent, and leaves nothing behind."""

from __future__ import annotations

import json

import pytest
from confluent_kafka.admin import AdminClient

from cdc_assets_tests.support.stack_commands import cdc
from cdc_assets_tests.support.stack_fixture import RunningStack

pytestmark = pytest.mark.stack


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
    admin = AdminClient({"bootstrap.servers": stack.environment["CDC_LAKE_BOOTSTRAP"]})
    assert not [topic for topic in admin.list_topics(timeout=60).topics if topic.startswith("cdc_bench")]
    after = {path.name for path in stack.home.root.iterdir()}
    assert after - before <= {"locks"}
    assert not [*(stack.home.root / "locks").glob("*cdc_bench*")]
