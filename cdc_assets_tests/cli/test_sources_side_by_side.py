"""The job that brings connectors, topics and mirrors takes sources side by side: one that stands holds no other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from cdc_assets.defs.overall_jobs import TRANSPORT_JOB, build_overall_jobs, execute_here

LAYERS = ("connector", "topic", "mirror")


class Chains:
    """Two sources. The mirror of the first stands until that of the second has carried; its connector may fail."""

    def __init__(self, *, fails: bool = False) -> None:
        self.carried, self.waited_in_vain, self.fails = threading.Event(), False, fails

    def defs(self) -> dg.Definitions:
        assets = [self._asset(layer, source) for source in ("aaa", "zzz") for layer in LAYERS]
        return dg.Definitions(assets=assets, jobs=build_overall_jobs(), executor=dg.in_process_executor)

    def _asset(self, layer: str, source: str) -> dg.AssetsDefinition:
        before = [dg.AssetKey([LAYERS[LAYERS.index(layer) - 1], source])] if layer != "connector" else []

        @dg.asset(key=dg.AssetKey([layer, source]), deps=before, tags={"layer": layer})
        def made() -> None:
            if (layer, source) == ("mirror", "zzz"):
                self.carried.set()
            if (layer, source) == ("mirror", "aaa"):
                self.waited_in_vain = not self.carried.wait(20)
            if (layer, source) == ("connector", "aaa") and self.fails:
                raise dg.Failure("it cannot")

        return made


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.instance_for_test(temp_dir=str(tmp_path)) as found:
        yield found


def test_a_source_that_stands_holds_no_other(instance: dg.DagsterInstance) -> None:
    chains = Chains()
    result = execute_here(chains.defs().resolve_job_def(TRANSPORT_JOB), instance)
    assert result.success
    assert not chains.waited_in_vain
    assert {event.asset_key for event in result.get_asset_materialization_events()} == {
        dg.AssetKey([layer, source]) for source in ("aaa", "zzz") for layer in LAYERS
    }
    run = instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.status == dg.DagsterRunStatus.SUCCESS


def test_a_source_that_fails_stops_its_own_steps_alone(instance: dg.DagsterInstance) -> None:
    result = execute_here(Chains(fails=True).defs().resolve_job_def(TRANSPORT_JOB), instance)
    assert not result.success
    done = {tuple(event.asset_key.path) for event in result.get_asset_materialization_events() if event.asset_key}
    assert done == {(layer, "zzz") for layer in LAYERS}
    (failure,) = result.filter_events(lambda event: event.is_step_failure)
    assert failure.step_key == "connector__aaa"
