"""`cdc` called as a program does: its exit code, its answer as JSON, and what it said beside that."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app


def cdc(*arguments: str) -> tuple[int, Any, str]:
    result = CliRunner().invoke(app, [*arguments, "-o", "json"])
    return result.exit_code, json.loads(result.stdout) if result.stdout else None, result.stderr
