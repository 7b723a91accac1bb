"""All chains of a registry as one code location, with the jobs over all sources, and the user's own definitions merged in.

CDC_DEFINITIONS names a module with one `dg.Definitions`, or with assets, checks, jobs, sensors and schedules at its top level.
One that cannot be loaded does not stop the chains: they stay as they are, and the sensor `user_definitions` fails with the
reason.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import dagster as dg

from cdc_assets.defs.alert_and_trace_sensors import build_alert_sensors, build_trace_sensors
from cdc_assets.defs.jobs_on_demand import build_onboarding_jobs, build_replay_job, build_restore_job
from cdc_assets.defs.overall_jobs import build_overall_jobs
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.rhythms import build_old_runs
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.operations.own_definitions import LoadedDefinitions, digest_of, note_loaded
from cdc_assets.registry import settings
from cdc_assets.registry.errors import SettingError
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.registry_copy import KEPT
from cdc_assets.registry.source_declaration import BaseSource


def build_code_location(sources: Iterable[BaseSource], declared_in: Path | None = None) -> dg.Definitions:
    """The chains of the sources; a run works step after step in one process: its steps wait for Spark, Kafka and Connect."""
    chains = [build_source_defs(source, declared_in) for source in sources]
    old_runs, each_night = build_old_runs(
        [key for chain in chains for check in chain.asset_checks or () for key in check.check_keys]
    )
    return dg.Definitions.merge(
        *chains,
        dg.Definitions(
            jobs=[*build_overall_jobs(), *build_onboarding_jobs(), build_replay_job(), build_restore_job(), old_runs],
            schedules=[each_night],
            sensors=[*build_alert_sensors(), *build_trace_sensors()],
            resources={"platform": PlatformResource()},
            executor=dg.in_process_executor,
        ),
    )


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
        except SettingError as found:
            error = found
            logging.getLogger("dagster").error("%s", error)
            merged = dg.Definitions.merge(chains, dg.Definitions(sensors=[_broken(error)]))
    if serves:
        _note(named or "", merged, chains, error)
        os.environ["CDC_DEFINITIONS"] = named or ""
    return merged


def _note(named: str, merged: dg.Definitions, chains: dg.Definitions, error: SettingError | None) -> None:
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
    """Both, as Dagster takes them. Raises SettingError: naming the module and what is wrong with it."""
    try:
        merged = dg.Definitions.merge(chains, _read(_load(named)))
        dg.Definitions.validate_loadable(merged)
        merged = _switch_automation_on(merged)
    except Exception as error:
        reason = (str(error).strip().splitlines() or ["no reason given"])[0]
        raise SettingError(
            f"CDC_DEFINITIONS={named} is not loaded: {type(error).__name__}: {reason}; mend it, then: ./cdc up; "
            "without it: CDC_DEFINITIONS= ./cdc up"
        ) from error
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
    Raises SettingError: they do not, and why."""
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
    definitions = [value for value in vars(module).values() if isinstance(value, dg.Definitions)]
    if len(definitions) > 1:
        raise ValueError(f"it has {len(definitions)} Definitions; merge them into one (dg.Definitions.merge)")
    return definitions[0] if definitions else dg.load_definitions_from_module(module)


def _broken(error: SettingError) -> dg.SensorDefinition:
    @dg.sensor(
        name=SENSOR,
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="CDC_DEFINITIONS could not be loaded: the reason is each tick's error. The chains run without it.",
    )
    def user_definitions(_: dg.SensorEvaluationContext) -> NoReturn:
        raise error

    return user_definitions
