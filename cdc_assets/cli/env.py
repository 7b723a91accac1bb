"""`cdc env`: the running stack's addresses as shell exports: `eval "$(./cdc env)"`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from cdc_assets import settings
from cdc_assets.stack.errors import StackError
from cdc_assets.stack.home import Home, read_json


def env() -> None:
    """Print `export NAME=value` for every address, so that `dagster` and `dg` are found and work on the running stack."""
    home = Home(settings.home())
    environment = read_json(home.stack).get("environment")
    if not environment:
        raise StackError("env", f"no stack has run in {home.root}", "./cdc up")
    for name, value in sorted(environment.items()):
        print(f"export {name}={shlex.quote(value)}")
    # Dagster imports the instance's storage from here before it looks at the current folder.
    _print_before("PYTHONPATH", Path(__file__).parents[2])
    _print_before("PATH", Path(sys.executable).parent)
    # The stack's own dagster.yaml refers to it, and a shell that is to use that instance needs it: by its file, not its value.
    _print_text_of("CDC_DAGSTER_DB_PASSWORD", home.private_file("dagster_db_password"))
    # PySpark's own client finds the token of the stack's Spark here, also in assets that are not ours.
    if key := read_json(home.stack).get("keys", {}).get(environment.get("CDC_SPARK_REMOTE")):
        _print_text_of("SPARK_CONNECT_AUTHENTICATE_TOKEN", Path(key))


def _print_text_of(name: str, file: Path) -> None:
    if file.exists():
        print(f'export {name}="$(cat {shlex.quote(str(file))})"')


def _print_before(name: str, folder: Path) -> None:
    print(f'export {name}={shlex.quote(str(folder))}"${{{name}:+:${name}}}"')
