"""What `cdc replay` and Dagster's job `replay` ask Spark for: only some keys, or a stretch of time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.jobs_on_demand import build_replay_job
from cdc_assets.reading.silver_now import find_source
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import TopicSource
from cdc_assets_tests.support.declared import declare_source
from spark.upkeep import replay_job
from spark.upkeep.replay_spec import Difference, Prepared, ReplaySpec, Swapped

SHOP = """\
source: shop
kind: topics
tables: [{name: lines, topic: t.lines, envelope: json, keys: [a, b], columns: {a: integer, b: text, v: text}}]
"""
SINCE, UNTIL = "2026-11-25T14:00:00Z", "2026-11-25T15:00:00Z"
KEYS = ('{"a": 1, "b": "x"}', '{"a": 2, "b": null}')


@dataclass
class AskedSpark:
    """Stands where Spark does: one row differs, whatever is asked."""

    steps: list[tuple[Any, ReplaySpec]] = field(default_factory=list)

    def run(self, step: Callable[..., Any], asked: ReplaySpec) -> Prepared | Swapped:
        self.steps.append((step, asked))
        difference = Difference(4, {"added": 0, "changed": 1, "gone": 0, "moved": 0})
        return Prepared({"silver": difference}, chosen=1) if step is replay_job.prepare else Swapped({"silver": 5}, {"silver": 4})


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AskedSpark:
    found = AskedSpark()
    declare_source(tmp_path, monkeypatch, SHOP, TopicSource)
    monkeypatch.setattr(Platform, "spark", lambda _: found)
    return found


def cdc(*words: str) -> Any:
    return CliRunner().invoke(app, ["replay", "shop", "lines", *words])


def asked_of(spark: AskedSpark) -> ReplaySpec:
    """What both steps were given."""
    (first, asked), (second, same) = spark.steps
    assert (first, second) == (replay_job.prepare, replay_job.swap)
    assert asked is same
    source = find_source("shop")
    assert asked.silver.path == names.silver_path(Platform().lake, source, source.table("lines"))
    return asked


def test_keys_reach_the_request_of_the_command(spark: AskedSpark) -> None:
    result = cdc(*(word for key in KEYS for word in ("--keys", key)), "-o", "json")
    assert result.exit_code == 0, (result.output, result.exception)
    asked = asked_of(spark)
    assert (asked.keys, asked.since, asked.until, asked.as_new, asked.is_whole) == (KEYS, "", "", False, False)
    answer = json.loads(result.stdout)
    assert (answer["chosen_keys"], answer["swapped"], answer["versions"]) == (1, True, {"silver": 5})


def test_a_time_reaches_the_request_of_the_command(spark: AskedSpark) -> None:
    result = cdc("--from", SINCE, "--to", UNTIL)
    assert result.exit_code == 0, (result.output, result.exception)
    asked = asked_of(spark)
    assert (asked.keys, asked.since, asked.until, asked.is_whole) == ((), SINCE, UNTIL, False)
    assert cdc("--from", SINCE, "--dry-run").exit_code == 0
    step, only_from = spark.steps[-1]
    assert (step, only_from.since, only_from.until) == (replay_job.prepare, SINCE, "")


@pytest.mark.parametrize("words", [("--keys", KEYS[0], "--from", SINCE), ("--undo", "--to", UNTIL), ("--undo", "--keys", "1")])
def test_what_does_not_go_together(spark: AskedSpark, words: tuple[str, ...]) -> None:
    result = cdc(*words)
    assert result.exit_code == 2
    assert "do not go together" in " ".join(result.output.replace("│", "").split())
    assert not spark.steps


@pytest.mark.parametrize("chosen", [{"keys": [*KEYS]}, {"since": SINCE, "until": UNTIL}], ids=["keys", "time"])
def test_both_reach_the_request_of_dagsters_job(spark: AskedSpark, chosen: dict[str, Any]) -> None:
    wanted = {"source": "shop", "table": "lines", "dry_run": False, **chosen}
    config = {"ops": {"replay_table": {"config": wanted}}}
    with dg.DagsterInstance.ephemeral() as instance:
        result = build_replay_job().execute_in_process(config, instance=instance, resources={"platform": Platform()})
    assert result.success
    asked = asked_of(spark)
    assert (asked.keys, asked.since, asked.until) == (
        tuple(chosen.get("keys", ())),
        chosen.get("since", ""),
        chosen.get("until", ""),
    )
