"""What is told while something is waited for, where the output is no terminal: a line each, as long as it is."""

from __future__ import annotations

import pytest

from cdc_assets.cli.progress import Components, console, status
from cdc_assets.stack.component_state import HEALTHY, STOPPED, STOPPING, ComponentState, StackState

_LONG = "the webserver is asked to reload, then what it has is compared, " * 3


def _state(health: str, detail: str = "") -> StackState:
    return StackState(1, (ComponentState("gcs", "", "", health, started_in=1.2, detail=detail),))


def test_a_long_line_is_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    console.print(f"definitions: {_LONG}")
    with status(f"first: {_LONG}"):
        pass
    with Components() as view:
        view.show(_state("failed", _LONG))
    assert capsys.readouterr().err.splitlines() == [f"definitions: {_LONG}", f"first: {_LONG}", f"gcs: failed ({_LONG})"]


def test_who_stops_a_stack_is_not_told_how_it_started(capsys: pytest.CaptureFixture[str]) -> None:
    with Components(without=(HEALTHY,)) as view:
        for health in (HEALTHY, STOPPING, STOPPED):
            view.show(_state(health))
    assert capsys.readouterr().err.splitlines() == ["gcs: stopping", "gcs: stopped"]
