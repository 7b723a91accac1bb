"""What the tutorial says of checks and questions is so; its commands are played by e2e/test_tutorial.py."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import dagster as dg

from cdc_assets.cli.verbs import stack_verbs
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.settings import example_sources

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")


def test_the_checks_that_have_not_run_are_the_ledgers() -> None:
    chain = build_source_defs(load_source(example_sources() / "world.yaml"))
    graph = dg.Definitions.merge(chain, dg.Definitions(resources={"platform": PlatformResource()})).resolve_asset_graph()
    of_ledger = {check.name for check in graph.get(dg.AssetKey(["ledger", "world", "ledger_country"])).check_keys}
    (told,) = re.findall(r"\bThe (\w+) that have not run are (.*?)\.\s", PAGE, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`(\w+)`", told[1])) == of_ledger
    assert {"four": 4}[told[0]] == len(of_ledger)
    assert set(re.findall(r"pass, (\d+) not run", PAGE)) == {str(len(of_ledger))}


def test_the_question_before_a_wipe_is_the_one_that_is_asked() -> None:
    (question,) = re.findall(r"The last command asks `(.*?) \[y/N\]:`", PAGE)
    assert f"typer.confirm({json.dumps(question)}, abort=True)" in inspect.getsource(stack_verbs)
