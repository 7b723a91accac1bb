"""`cdc notebook`: JupyterLab on 127.0.0.1 over the lake's tables, with three notebooks to begin with."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from cdc_assets import settings
from cdc_assets.errors import LakeSqlError

_GIVEN = Path(__file__).parents[1] / "lake_sql" / "notebooks"
_ROOT = Path(__file__).parents[2]


def notebook(
    folder: Annotated[Path | None, typer.Option(help="Where your notebooks are.  [default: notebooks in CDC_HOME]")] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The first port that is tried.")] = 8888,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
) -> None:
    """Start JupyterLab over the lake, on 127.0.0.1 and behind a token that is printed.

    Three notebooks are copied into the folder: a chain, event time, what changed. Yours stay as they are.
    """
    if find_spec("jupyterlab") is None:
        raise LakeSqlError("JupyterLab is not installed: ./cdc notebook installs it, or pip install jupyterlab")
    place = (folder or settings.home() / "notebooks").absolute()
    copy_notebooks(place)
    settings.export_stack_environment()
    os.environ["CDC_HOME"], os.environ["CDC_SOURCES"] = str(settings.home()), str(settings.sources_folder())
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    server = {"ServerApp.ip": "127.0.0.1", "ServerApp.port": port, "ServerApp.root_dir": place}
    given = [f"--{name}={value}" for name, value in server.items()]
    # Jupyter does not begin as root unless it is told; in a container the stack is root's as well.
    given += ["--allow-root"] if os.geteuid() == 0 else []
    command = [sys.executable, "-m", "jupyterlab", *given, *([] if browser else ["--no-browser"])]
    os.execv(sys.executable, command)  # our own interpreter


def copy_notebooks(folder: Path) -> list[Path]:
    """Those that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [given for given in sorted(_GIVEN.glob("*.ipynb")) if not (folder / given.name).exists()]
    return [Path(shutil.copy(given, folder)) for given in missing]
