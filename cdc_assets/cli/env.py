"""`cdc env`: the running stack's addresses as shell exports: `eval "$(./cdc env)"`."""

from __future__ import annotations

import shlex

from cdc_assets import settings
from cdc_assets.stack.errors import StackError
from cdc_assets.stack.home import Home, read_json


def env() -> None:
    """Print `export NAME=value` for every address."""
    home = Home(settings.home())
    environment = read_json(home.stack).get("environment")
    if not environment:
        raise StackError("env", f"no stack has run in {home.root}", "./cdc up")
    for name, value in sorted(environment.items()):
        print(f"export {name}={shlex.quote(value)}")
