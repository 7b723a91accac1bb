"""What CDC_DEFINITIONS names is in the code location; what cannot be loaded is told by name, and takes no chain away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.defs.code_location import merge_user_definitions
from cdc_assets.registry.errors import SettingError

ROOT = Path(__file__).parents[2]
CITY, GOLD = dg.AssetKey(["silver", "world", "silver_city"]), dg.AssetKey(["gold", "cities"])
ASSET = """
import dagster as dg

@dg.asset(key=["gold", "cities"], deps=[dg.AssetKey(["silver", "world", "silver_city"])])
def cities(): ...
"""
TAKEN = 'import dagster as dg\n@dg.asset(key=["silver", "world", "silver_city"])\ndef city(): ...\n'
LOAD = """
import dagster as dg
from cdc_assets.definitions import defs
found = defs.get_repository_def()
keys = found.asset_graph.get_all_asset_keys()
print(sorted(key.to_user_string() for key in keys if key.path[-1].endswith(("_city", "cities"))))
found.get_sensor_def("user_definitions").evaluate_tick(dg.build_sensor_context(dg.DagsterInstance.ephemeral()))
"""


@pytest.fixture
def chains() -> dg.Definitions:
    return dg.Definitions(
        assets=[dg.multi_asset(specs=[dg.AssetSpec(CITY)], name="silver")(lambda: None)],
        executor=dg.in_process_executor,
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("end", ["", "defs = dg.Definitions(assets=[cities])\n"])
@pytest.mark.parametrize("named", ["gold_module", "{folder}/gold_module.py"])
def test_a_module_or_a_file_is_merged_with_the_chains(named: str, end: str, chains: dg.Definitions, folder: Path) -> None:
    (folder / "gold_module.py").write_text(ASSET + end)
    sys.modules.pop("gold_module", None)
    graph = merge_user_definitions(chains, named.format(folder=folder)).get_repository_def().asset_graph
    assert graph.get_all_asset_keys() == {CITY, GOLD}
    assert graph.get(GOLD).parent_keys == {CITY}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("from nowhere import nothing\n", "ModuleNotFoundError: No module named 'nowhere'"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def broken(:\n", "SyntaxError: invalid syntax"),
        (ASSET + "defs, more = dg.Definitions(), dg.Definitions()\n", "ValueError: it has 2 Definitions"),
        (ASSET + "defs = dg.Definitions(executor=dg.multiprocess_executor)\n", "DagsterInvariantViolationError: "),
        (TAKEN, "DagsterInvalidDefinitionError: "),
    ],
)
def test_what_does_not_load_or_does_not_fit_is_named(text: str, reason: str, chains: dg.Definitions, folder: Path) -> None:
    (folder / "gold_module.py").write_text(text)
    sys.modules.pop("gold_module", None)
    with pytest.raises(SettingError, match="is not loaded") as told:
        merge_user_definitions(chains, "gold_module")
    assert str(told.value).startswith(f"CDC_DEFINITIONS=gold_module is not loaded: {reason}")


FOLLOWS = ASSET.replace('silver_city"])]', 'silver_city"])], automation_condition=dg.AutomationCondition.eager()')
THEIR_SENSOR = """
theirs = dg.AutomationConditionSensorDefinition("theirs", target={target})
"""
AUTOMATION = "default_automation_condition_sensor"


@pytest.mark.parametrize(
    ("text", "sensors"),
    [
        (ASSET, {}),
        (FOLLOWS, {AUTOMATION: ("RUNNING", {GOLD})}),
        # One of the user's own is as the user has it, and no asset is looked at by two.
        (FOLLOWS + THEIR_SENSOR.format(target="[cities]"), {"theirs": ("STOPPED", {GOLD})}),
        (
            FOLLOWS + THEIR_SENSOR.format(target='dg.AssetSelection.groups("none")'),
            {"theirs": ("STOPPED", set()), AUTOMATION: ("RUNNING", {GOLD})},
        ),
        (
            FOLLOWS + THEIR_SENSOR.format(target="[cities]").replace('"theirs"', f'"{AUTOMATION}"'),
            {AUTOMATION: ("STOPPED", {GOLD})},
        ),
    ],
)
def test_what_has_a_condition_is_looked_at_without_a_switch(
    text: str, sensors: dict[str, tuple[str, set[dg.AssetKey]]], chains: dg.Definitions, folder: Path
) -> None:
    (folder / "gold_module.py").write_text(text)
    sys.modules.pop("gold_module", None)
    made = merge_user_definitions(chains, "gold_module").get_repository_def()
    found = {}
    for sensor in made.sensor_defs:
        assert isinstance(sensor, dg.AutomationConditionSensorDefinition)
        keys = sensor.asset_selection.resolve(made.asset_graph)
        conditions = {key for key in keys if made.asset_graph.get(key).automation_condition is not None}
        found[sensor.name] = (sensor.default_status.value, conditions)
    assert found == sensors


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CDC_", "DAGSTER_"))}
    own = {"PYTHONPATH": str(ROOT), "CDC_HOME": str(cwd / "home"), "CDC_DEFINITIONS": "gold.py"}
    return subprocess.run([sys.executable, *command], cwd=cwd, env=kept | own, capture_output=True, text=True, check=False)


@pytest.mark.service
def test_a_broken_file_fails_a_sensor_and_no_chain_and_up_refuses_it(tmp_path: Path) -> None:
    (tmp_path / "gold.py").write_text("1 / 0\n")
    told = f"CDC_DEFINITIONS={tmp_path}/gold.py is not loaded: ZeroDivisionError: division by zero; mend it, then: ./cdc up"
    told += "; without it: CDC_DEFINITIONS= ./cdc up"
    loaded = run("-c", LOAD, cwd=tmp_path)
    assert "silver/world/silver_city" in loaded.stdout
    assert "gold/cities" not in loaded.stdout
    assert loaded.stderr.splitlines()[-1].endswith(told)
    up = run("-m", "cdc_assets.cli", "up", cwd=tmp_path)
    assert (up.returncode, up.stderr) == (1, f"cdc: {told}\n")
    assert not (tmp_path / "home" / "stack.json").exists()
