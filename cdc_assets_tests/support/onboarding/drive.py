"""The onboarding as a process of its own, so that it can be killed at any moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[3]


def cdc(*arguments: str) -> subprocess.Popen[str]:
    """`cdc …`, started."""
    command = [sys.executable, "-m", "cdc_assets.cli", *arguments]
    return subprocess.Popen(
        command, cwd=REPOSITORY, env=dict(os.environ), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def ended(process: subprocess.Popen[str], *, seconds: float = 180, code: int = 0) -> Any:
    """What it printed, as JSON; `code` is how it is to end."""
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == code, f"{process.args}: {process.returncode}\n{out}\n{err}"
    return json.loads(out)


def kill_at(process: subprocess.Popen[str], source: str, step: str, *, after: float = 0.0) -> bool:
    """kill -9 so many seconds after the step has begun; whether it came so far."""
    file = Path(os.environ["CDC_HOME"]) / "source-state" / f"{source}.json"
    while process.poll() is None:
        running = json.loads(file.read_text())["state"].get("onboarding", {}).get("running") if file.is_file() else None
        if running is not None and running["current"] == step:
            time.sleep(after)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return True
        time.sleep(0.005)
    return False
