"""The user's own assets in the embedded stack's code location: what CDC_DEFINITIONS names is merged with the chains.

A module with one `dg.Definitions`, or with assets, checks, jobs, sensors and schedules at its top level. One that cannot be
loaded does not stop the chains: they stay as they are, and the sensor `user_definitions` fails with the reason.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import dagster as dg

from cdc_assets import settings
from cdc_assets.defs.code_location import build_code_location
from cdc_assets.errors import UserDefinitionsError
from cdc_assets.registry_files.loaded_copy import KEPT
from cdc_assets.registry_files.loader import load_sources
from cdc_assets.running_dagster.loaded_definitions import LoadedDefinitions, digest_of, note_loaded

SENSOR = "user_definitions"
AUTOMATION = "default_automation_condition_sensor"
"""As Dagster calls the sensor that it makes (https://docs.dagster.io/guides/automate/declarative-automation)."""
_FROM_FILE = "cdc_user_definitions"


def add_user_definitions(chains: dg.Definitions) -> dg.Definitions:
    """The chains with what CDC_DEFINITIONS names; without it, or where it is broken, the chains."""
    named = settings.user_definitions()
    # A code server reads the name from stack.json; its runs get it, so that they load what their server has.
    serves = KEPT in os.environ and "CDC_DEFINITIONS" not in os.environ
    merged, error = chains, None
    if named is not None:
        try:
            merged = merge_user_definitions(chains, named)
        except UserDefinitionsError as found:
            error = found
            logging.getLogger("dagster").error("%s", error)
            merged = dg.Definitions.merge(chains, dg.Definitions(sensors=[_broken(error)]))
    if serves:
        _note(named or "", merged, chains, error)
        os.environ["CDC_DEFINITIONS"] = named or ""
    return merged


def _note(named: str, merged: dg.Definitions, chains: dg.Definitions, error: UserDefinitionsError | None) -> None:
    """For `cdc status` and `cdc reload`."""
    own = set(merged.resolve_all_asset_keys()) - set(chains.resolve_all_asset_keys()) if named and not error else set()
    file = _file_of(named)
    assets = tuple(sorted("/".join(key.path) for key in own))
    loaded = LoadedDefinitions(named, file, digest_of(file), assets, str(error) if error else "")
    note_loaded(Path(os.environ[KEPT]), loaded)


def _file_of(named: str) -> str:
    """Empty where nothing is named, or a module that is not found or in no file."""
    if not named or settings.is_file_name(named):
        return named
    try:
        spec = importlib.util.find_spec(named)
    except (ImportError, ValueError):
        return ""
    return spec.origin or "" if spec else ""


def merge_user_definitions(chains: dg.Definitions, named: str) -> dg.Definitions:
    """Both, as Dagster takes them.

    Raises:
        UserDefinitionsError: naming the module and what is wrong with it.
    """
    try:
        merged = dg.Definitions.merge(chains, _read(_load(named)))
        dg.Definitions.validate_loadable(merged)
        merged = _switch_automation_on(merged)
    except Exception as error:
        raise UserDefinitionsError(named, error) from error
    return merged


def _switch_automation_on(merged: dg.Definitions) -> dg.Definitions:
    """With the sensor that Dagster makes for conditions of assets, running: Dagster's own is stopped until somebody starts it.

    It has the assets that no sensor of the user's has. Who stops it in the UI has it stopped.
    """
    made = merged.get_repository_def()
    theirs = {sensor.name for sensor in merged.sensors or ()}
    if AUTOMATION in theirs or not made.has_sensor_def(AUTOMATION):
        return merged
    sensor = made.get_sensor_def(AUTOMATION)
    assert isinstance(sensor, dg.AutomationConditionSensorDefinition)
    running = dg.AutomationConditionSensorDefinition(
        AUTOMATION,
        target=sensor.asset_selection,
        asset_job_keys=sensor.asset_job_keys,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Assets with an automation condition that no other sensor has.",
    )
    return dg.Definitions.merge(merged, dg.Definitions(sensors=[running]))


def try_user_definitions(named: str) -> None:
    """Whether they load beside the chains of the registry as it is now; nothing is kept of it.

    Raises:
        UserDefinitionsError: they do not, and why.
    """
    merge_user_definitions(build_code_location(load_sources(settings.sources_folder())), named)


def _load(named: str) -> ModuleType:
    if not settings.is_file_name(named):
        return importlib.import_module(named)
    spec = importlib.util.spec_from_file_location(_FROM_FILE, Path(named))
    if spec is None or spec.loader is None:
        raise ImportError(f"{named} is no Python file")
    module = importlib.util.module_from_spec(spec)
    # Before it is executed: dataclasses and pickle look a class's module up.
    sys.modules[_FROM_FILE] = module
    spec.loader.exec_module(module)
    return module


def _read(module: ModuleType) -> dg.Definitions:
    found = [value for value in vars(module).values() if isinstance(value, dg.Definitions)]
    if len(found) > 1:
        raise ValueError(f"it has {len(found)} Definitions; merge them into one (dg.Definitions.merge)")
    return found[0] if found else dg.load_definitions_from_module(module)


def _broken(error: UserDefinitionsError) -> dg.SensorDefinition:
    @dg.sensor(
        name=SENSOR,
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="CDC_DEFINITIONS could not be loaded: the reason is each tick's error. The chains run without it.",
    )
    def user_definitions(_: dg.SensorEvaluationContext) -> NoReturn:
        raise error

    return user_definitions
