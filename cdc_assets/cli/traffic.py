"""`cdc traffic`: pgbench's TPC-B transactions against the `bank` example, at a steady rate."""

from __future__ import annotations

import os
import subprocess
from typing import Annotated

import typer

from cdc_assets import settings
from cdc_assets.stack.components.postgres import binary
from cdc_assets.stack.errors import StackError
from cdc_assets.stack.home import Home


def traffic(
    rate: Annotated[float, typer.Option(help="Transactions per second.")] = 50,
    seconds: Annotated[int, typer.Option(help="For how long.")] = 60,
    clients: Annotated[int, typer.Option(help="Connections.")] = 2,
) -> None:
    """Write to the bank while it is captured."""
    home = Home(settings.home())
    if not (home.secrets / "bank_db_password").exists():
        raise StackError("traffic", f"the example source bank is not loaded in {home.root}", "./cdc up")
    command = [binary("pgbench"), "--no-vacuum", f"--rate={rate}", f"--time={seconds}", f"--client={clients}", "--progress=10"]
    command += [
        "-h",
        settings.address("CDC_POSTGRES_HOST"),
        "-p",
        settings.address("CDC_POSTGRES_PORT"),
        "-U",
        "bank_cdc",
        "bank",
    ]
    # In the environment, not on the command line, which every user can read.
    result = subprocess.run(command, env={**os.environ, "PGPASSWORD": home.secret("bank_db_password")}, check=False)
    if result.returncode:
        raise StackError("traffic", f"pgbench exited with {result.returncode}", "./cdc status")
