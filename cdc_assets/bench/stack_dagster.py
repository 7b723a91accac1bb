"""The stack's own Dagster instance, opened from this process as its runs do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cdc_assets import settings
from cdc_assets.stack.home import Home

if TYPE_CHECKING:
    import dagster as dg


@contextmanager
def open_instance(home: Home) -> Iterator[dg.DagsterInstance]:
    """Runs and events, in the stack's PostgreSQL."""
    import dagster as dg

    settings.export_stack_environment()
    os.environ.setdefault("CDC_DAGSTER_DB_PASSWORD", home.private("dagster_db_password"))
    with dg.DagsterInstance.get() as instance:
        yield instance
