"""`cdc`, run against the running stack."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from cdc_assets_tests.support.stack_fixture import RunningStack

ROOT = Path(__file__).parents[2]


def cdc(stack: RunningStack, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CDC_HOME": str(stack.home.root)}
    command = [sys.executable, "-m", "cdc_assets.cli", *arguments]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
