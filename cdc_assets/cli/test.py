"""`cdc test`: the door to `cdc_assets_tests.run`, which no wheel has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

from cdc_assets.errors import CdcAssetsError

_ROOT = Path(__file__).parents[2]


def test(context: typer.Context) -> None:
    """Run lint, types and the tests, or what the given pytest arguments select (then without lint)."""
    if not (_ROOT / "cdc_assets_tests").is_dir():
        raise CdcAssetsError("the tests are in the repository, and not in a wheel: clone it, then ./cdc test")
    process = subprocess.Popen([sys.executable, "-m", "cdc_assets_tests.run", *context.args], cwd=_ROOT)
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:
            # The run has had it too: it stops its servers, and tells what it has played. Not to wait would be to kill it.
            continue
    if code:
        raise typer.Exit(code)
