"""The shell completes sources and connectors from the registry, without any service."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest
import typer
from typer.testing import CliRunner

import cdc_assets
from cdc_assets.cli.cdc_command import app
from cdc_assets.cli.output_formats import Format, Output
from cdc_assets.cli.verb_table import VERBS


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("cdc preflight wo", ["world"]),
        ("cdc restart ba", ["bank-capture", "bank-mirror"]),
        ("cdc get conn", ["connectors"]),
        ("cdc onboard wo", ["world"]),
        ("cdc offboard ba", ["bank"]),
        ("cdc repair mirror world.public.ci", ["world.public.city"]),
        ("cdc repair source ba", ["bank"]),
        ("cdc wait wo", ["world"]),
        ("cdc apply -o y", ["yaml"]),
    ],
)
def test_completion(typed: str, offered: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SOURCES", str(Path(cdc_assets.__file__).parent / "sources"))
    asked = {"_CDC_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    result = CliRunner().invoke(app, [], prog_name="cdc", env=asked)
    assert result.stdout.split() == offered


def test_the_shell_completes_the_command_however_it_was_started() -> None:
    """The launcher starts it as a module, and a completion for that would never be asked for."""
    command = [sys.executable, "-m", "cdc_assets.cli", "--show-completion", "bash"]
    # Else the shell is looked for among the parents of this process.
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    assert "_CDC_COMPLETE=complete_bash" in done.stdout
    assert done.stdout.splitlines()[-1].split()[-1] == "cdc"


def verbs() -> Iterator[Callable[..., object]]:
    for name, verb in VERBS.items():
        found = verb.load(name)
        if not isinstance(found, typer.Typer):
            yield found
        else:
            yield from (each.callback for each in found.registered_commands if each.callback)


def test_each_output_is_one_of_the_forms() -> None:
    """A form that there is not is refused, and not taken for text."""
    found = {verb: inspect.signature(verb, eval_str=True).parameters for verb in verbs()}
    asked = {verb: parameters["output"].annotation for verb, parameters in found.items() if "output" in parameters}
    assert len(asked) > 20
    forms = {verb.__name__: get_args(annotation)[0] for verb, annotation in asked.items() if annotation != Output}
    # CSV is a form of rows alone, and `cdc sql` prints nothing else.
    assert set(forms) == {"sql"}
    assert [form.value for form in forms["sql"]] == [*(form.value for form in Format), "csv"]
