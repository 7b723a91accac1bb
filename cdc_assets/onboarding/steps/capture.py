"""The running connector takes the tables in, and every change from then on is captured.

It is stopped for a moment, its offsets kept, and goes on with the new list and whatever else its kind needs to know of the
tables (`kinds`). A config put under a running connector restarts its task twice, the first time with the old list, which would
set a publication back behind us; and a status read meanwhile is the old task's.
"""

from __future__ import annotations

import time

from cdc_assets import names
from cdc_assets.connectors.capture import as_listed, capture_config
from cdc_assets.connectors.unchanged_value import settle
from cdc_assets.errors import OnboardingError
from cdc_assets.onboarding.state import Facts
from cdc_assets.onboarding.temporary_connector import remove_beside
from cdc_assets.onboarding.work import OnboardingWork, Step
from cdc_assets.registry.models import CapturedSource


def signal_table(work: OnboardingWork) -> Facts:
    """The table through which snapshots are asked for."""
    table = names.signal_table(work.after)
    work.database.ensure_signal_table(table)
    return {"table": str(table)}


def connector(work: OnboardingWork) -> Facts:
    """The connector has old and new tables and runs; the publication has them too."""
    return reconfigure(work, work.after)


def without_tables(work: OnboardingWork) -> Facts:
    """The connector runs with what it had before, and its publication too."""
    name = names.connector_name(work.after)
    if work.core_connect.config(name) is None:
        # Somebody has deleted it: it has no list that could be given back.
        remove_beside(work)
        work.kind.update_capture(work, work.before)
        return {"connector": f"{name} does not exist"}
    return reconfigure(work, work.before)


def without_signals(work: OnboardingWork) -> Facts:
    """The table stays, and is empty."""
    table = names.signal_table(work.after)
    return {"signal_rows_cleared": work.database.clear_signals(table) if table in work.database.tables([table]) else 0}


def reconfigure(work: OnboardingWork, source: CapturedSource) -> Facts:
    """Stop, configure, publish, go on."""
    connect, name = work.core_connect, names.connector_name(source)
    running = connect.config(name)
    if running is None:
        raise OnboardingError(
            f"connector {name} does not exist any more: cdc apply {source.name} makes it again, and says how it goes "
            f"on; then cdc onboard {source.name} --resume, or --rollback"
        )
    # What else is declared and not listed is not taken in on the way: nobody would read its rows, and it may have been refused.
    listed = as_listed(source, running, work.state.tables)
    config = settle(capture_config(listed), running)
    if findings := connect.validate(config):
        lines = "; ".join(f"{key}: {' '.join(errors)}" for key, errors in sorted(findings.items()))
        raise OnboardingError(f"connector {config['name']} is not valid with these tables, nothing was applied: {lines}")
    began = work.kind.halt(work, source)
    connect.put_config(config["name"], config)
    work.kind.update_capture(work, source)
    connect.resume(config["name"])
    connect.wait_running(config["name"])
    return {"connector": config["name"], "tables": len(listed.tables), "stopped_seconds": round(time.monotonic() - began, 3)}


def writers(work: OnboardingWork) -> Facts:
    """Wait for the end of the transactions that have written to the tables before their changes were captured."""
    return work.kind.await_writers(work)


SIGNAL_TABLE = Step(
    "signal-table", "the source has the table that the connector takes signals from", signal_table, without_signals
)
CONNECTOR = Step(
    "connector", "the connector and its publication have old and new tables (stopped for a moment)", connector, without_tables
)
WRITERS = Step("writers", "transactions that wrote to them before they were published have ended", writers)
