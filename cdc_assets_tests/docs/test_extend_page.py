"""The check that docs/how-to/extend.md shows is one: its code is taken from the page, built for a source, and run."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from types import ModuleType

import dagster as dg

from cdc_assets import names
from cdc_assets.registry.loader import load_sources
from cdc_assets.resources.platform import Platform
from cdc_assets.settings import sources_folder

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "extend.md"


def test_the_check_of_the_page_warns_of_a_table_without_description() -> None:
    code = re.search(r"^    ```python\n(.*?)^    ```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert code
    module = ModuleType("described")
    exec(compile(textwrap.dedent(code[1]), str(PAGE), "exec", dont_inherit=True), module.__dict__)
    (world,) = [source for source in load_sources(sources_folder()) if source.name == "world"]
    country, *others = world.tables
    bare = world.model_copy(update={"tables": (country.model_copy(update={"description": None}), *others)})
    assets = [dg.AssetSpec(dg.AssetKey(names.asset_key("silver", world, table))) for table in world.tables]
    checks, resources = [module.build_described_checks(bare)], {"platform": Platform()}
    defined = dg.Definitions(assets=assets, asset_checks=checks, resources=resources)
    done = defined.resolve_implicit_global_asset_job_def().execute_in_process()
    found = {result.asset_key.path[-1].removeprefix("silver_"): result for result in done.get_asset_check_evaluations()}
    assert {table: result.passed for table, result in found.items()} == {"country": False, "city": True}
    assert found["country"].severity == dg.AssetCheckSeverity.WARN
    assert "public.country of source world has no description" in (found["country"].description or "")
