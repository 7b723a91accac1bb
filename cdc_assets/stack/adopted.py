"""Sources that are declared while the stack runs: it goes on with them where it can, and says where it must start again."""

from __future__ import annotations

import os
import signal

from cdc_assets.stack.declared import buckets, plugins, sources_named
from cdc_assets.stack.errors import StackError
from cdc_assets.stack.home import Home, read_json, write_json


def adopt_sources(home: Home, supervisor: int) -> None:
    """From now on the folder that CDC_SOURCES names is the stack's; buckets that its sources want are made by the supervisor.

    Raises:
        StackError: when a source needs a connector that the running Connect worker has not loaded.
    """
    told = read_json(home.stack)
    environment = told.get("environment", {})
    if (folder := sources_named(home)) and environment.get("CDC_SOURCES") != folder:
        write_json(home.stack, {**told, "environment": {**environment, "CDC_SOURCES": folder}})
    config = read_json(home.config)
    lacking = sorted(set(plugins()) - set(config.get("plugins", plugins())))
    if lacking and "CDC_CORE_CONNECT" not in config.get("external", {}):
        reason = f"a source needs {', '.join(lacking)}, which the worker that runs has not loaded"
        raise StackError("core-connect", reason, "./cdc down, then ./cdc up")
    wanted = {kind: sorted({*names, *config.get("buckets", {}).get(kind, ())}) for kind, names in buckets().items()}
    if any(set(names) - set(config.get("buckets", {}).get(kind, ())) for kind, names in wanted.items()):
        write_json(home.config, {**config, "buckets": {**config.get("buckets", {}), **wanted}})
        os.kill(supervisor, signal.SIGHUP)
