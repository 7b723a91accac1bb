"""`cdc test`: lint, types, then the test suite on a stack of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import typer

from cdc_assets.cli.progress import console

_ROOT = Path(__file__).parents[2]
_PYTHON = sys.executable
_LINT = (
    ("ruff format --check", [_PYTHON, "-m", "ruff", "format", "--check", "."]),
    ("ruff check", [_PYTHON, "-m", "ruff", "check", "."]),
    ("mypy", [_PYTHON, "-m", "mypy"]),
)


def test(context: typer.Context) -> None:
    """Run everything, or what the given pytest arguments select (then without lint)."""
    steps = [] if context.args else list(_LINT)
    steps.append(("pytest", [_PYTHON, "-m", "pytest", *context.args]))
    failed = []
    with tempfile.TemporaryDirectory(prefix="cdc-test-") as home:
        # Nothing of a running stack may reach the tests.
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("CDC_", "DAGSTER_"))}
        environment["CDC_HOME"] = home
        for name, command in steps:
            console.rule(name)
            if subprocess.run(command, cwd=_ROOT, env=environment, check=False).returncode:
                failed.append(name)
    if failed:
        console.print(f"[red]failed: {', '.join(failed)}[/red]")
        raise typer.Exit(1)
