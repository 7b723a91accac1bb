"""A connector as a person sees it in Dagster: its tasks as a table, where to look, what was changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import dagster as dg

from cdc_assets.connectors.apply import Applied
from cdc_assets.defs.runbook import runbook
from cdc_assets.kinds import experimental_warning
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.connect import ConnectorStatus
from cdc_assets.shown_text import lines_in_markdown


def of_applied(source: BaseSource, applied: Applied) -> dict[str, Any]:
    """What was changed in it, and who owns it."""
    return {
        "cdc/change": applied.summary,
        "cdc/changed_keys": ", ".join(applied.changed_keys) or "none",
        "cdc/managed_by": source.managed_by,
        **({"cdc/experimental": warning} if (warning := experimental_warning(source)) else {}),
    }


def of_status(url: str, status: ConnectorStatus) -> dict[str, Any]:
    """State, tasks with their failures, and the link to Connect's own answer."""
    rows = [
        dg.TableRecord({"task": str(task.id), "state": task.state, "worker": task.worker, "failure": task.trace})
        for task in status.details
    ]
    return {
        "cdc/state": status.state,
        "cdc/tasks_running": sum(task == "RUNNING" for task in status.tasks),
        "cdc/tasks": dg.MetadataValue.table(rows) if rows else "none",
        "cdc/connect": dg.MetadataValue.url(f"{url}/connectors/{quote(status.name, safe='')}/status"),
        "cdc/runbook": runbook("connector_running"),
    }


def of_difference(lines: Sequence[str]) -> dict[str, Any]:
    """What `cdc diff` said before it was applied; nothing where there was no difference. Secrets are not in it."""
    return {"cdc/diff": dg.MetadataValue.md(lines_in_markdown(list(lines)))} if lines else {}
