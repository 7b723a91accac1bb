"""`cdc test`: the door to `cdc_assets_tests.run`, which no wheel has."""

from __future__ import annotations

import subprocess
import sys

import typer

from cdc_assets.cli.repository import repository_with


def test(context: typer.Context) -> None:
    """Run lint, types and the tests, or what the given pytest arguments select (then without lint)."""
    root = repository_with("cdc_assets_tests", "the tests", "test")
    process = subprocess.Popen([sys.executable, "-m", "cdc_assets_tests.run", *context.args], cwd=root)
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:
            # The run has had it too: it stops its servers, and tells what it has played. Not to wait would be to kill it.
            continue
    if code:
        raise typer.Exit(code)
