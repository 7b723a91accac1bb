"""Sources that are declared while the stack runs: it goes on with them where it can, and says where it must start again."""

from __future__ import annotations

import os
import signal
from collections.abc import Collection

from cdc_assets.stack.declared_needs import REMEMBERED, buckets, places_to_remember, plugins
from cdc_assets.stack.errors import StackError
from cdc_assets.stack.home import Home, read_json, write_json


def remember(home: Home, names: Collection[str]) -> None:
    """From now on what these variables name, or no longer name, is the stack's: its code server reads it at each load."""
    told = read_json(home.stack)
    before = told.get("environment", {})
    kept = {name: value for name, value in before.items() if name not in names}
    now = kept | {name: value for name, value in places_to_remember(home).items() if name in names}
    if now != before:
        write_json(home.stack, {**told, "environment": now})


def adopt_sources(home: Home, supervisor: int) -> None:
    """From now on what CDC_SOURCES and CDC_DEFINITIONS name is the stack's; buckets that are wanted are made by the supervisor.

    Raises:
        StackError: when a source needs a connector that the running Connect worker has not loaded, or the endpoint of GCS.
    """
    remember(home, REMEMBERED)
    config = read_json(home.config)
    lacking = sorted(set(plugins()) - set(config.get("plugins", plugins())))
    if lacking and "CDC_CORE_CONNECT" not in config.get("external", {}):
        reason = f"a source needs {', '.join(lacking)}, which the worker that runs has not loaded"
        raise StackError("core-connect", reason, "./cdc down, then ./cdc up")
    wanted = {kind: sorted({*names, *config.get("buckets", {}).get(kind, ())}) for kind, names in buckets().items()}
    if "gcs" in wanted and not config.get("buckets", {}).get("gcs") and "STORAGE_EMULATOR_HOST" not in config.get("external", {}):
        reason = f"a source backs up to GCS (bucket {wanted['gcs'][0]}), and the stack runs without its endpoint"
        raise StackError("gcs", reason, "./cdc down, then ./cdc up; or name another one by STORAGE_EMULATOR_HOST")
    if any(set(names) - set(config.get("buckets", {}).get(kind, ())) for kind, names in wanted.items()):
        write_json(home.config, {**config, "buckets": {**config.get("buckets", {}), **wanted}})
        os.kill(supervisor, signal.SIGHUP)
