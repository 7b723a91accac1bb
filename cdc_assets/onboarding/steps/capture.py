"""The running connector takes the tables in, and every change from then on is decoded.

Reconfiguring restarts the connector's task. In mode `filtered` it adds the tables to its publication at that start, and
changes written before are not decoded (design trap: a snapshot that begins before loses them). A transaction that wrote
before and commits later is in no event at all, so whoever held a writer's lock on the tables when the publication had
them is awaited before anything is read. Writers that come later are not held up, nor waited for.
"""

from __future__ import annotations

import time

from cdc_assets import names
from cdc_assets.connectors.apply import apply_connector
from cdc_assets.connectors.postgresql import capture_config
from cdc_assets.errors import OnboardingError
from cdc_assets.onboarding.state import Facts
from cdc_assets.onboarding.work import Step, Work

_PUBLISHED_DEADLINE_SECONDS = 60.0
_WRITERS_DEADLINE_SECONDS = 3600.0
_TOLD_EVERY_SECONDS = 15.0


def signal_table(work: Work) -> Facts:
    """The table through which snapshots are asked for."""
    table = names.signal_table(work.after)
    work.database.ensure_signal_table(table)
    return {"table": str(table)}


def connector(work: Work) -> Facts:
    """The connector has old and new tables and runs; the publication has them too."""
    began = time.monotonic()
    applied = apply_connector(work.platform.core_connect(), capture_config(work.after))
    seconds = time.monotonic() - began
    await_published(work)
    return {"change": applied.summary, "restart_seconds": round(seconds, 3)}


def without_tables(work: Work) -> Facts:
    """The connector runs with what it had before; in mode `filtered` its publication follows."""
    applied = apply_connector(work.platform.core_connect(), capture_config(work.before))
    work.database.unpublish(names.publication_name(work.before), [table.id for table in work.tables])
    return {"connector": applied.summary}


def await_published(work: Work) -> None:
    """Wait until the tables are in the publication.

    Raises:
        OnboardingError: when they do not come into it.
    """
    publication = names.publication_name(work.after)
    wanted = {table.id for table in work.tables}
    until = time.monotonic() + _PUBLISHED_DEADLINE_SECONDS
    while not wanted <= (published := work.database.published(publication)):
        if time.monotonic() > until:
            missing = ", ".join(str(table) for table in sorted(wanted - published))
            raise OnboardingError(
                f"{missing} did not come into publication {publication} at {work.database.place}; add by hand: "
                f"ALTER PUBLICATION {publication} ADD TABLE {missing}; then cdc onboard {work.after.name} --resume"
            )
        time.sleep(0.2)


def writers(work: Work) -> Facts:
    """Wait for the end of the transactions that have written to the tables before they were published."""
    ids = [table.id for table in work.tables]
    await_published(work)
    began = told = time.monotonic()
    first = left = work.database.writers(ids)
    while left:
        now = time.monotonic()
        if now - began > _WRITERS_DEADLINE_SECONDS:
            raise OnboardingError(
                f"{work.database.place}: open since before the tables were published: {'; '.join(left.values())}; end these "
                f"transactions, then cdc onboard {work.after.name} --resume"
            )
        if now - told > _TOLD_EVERY_SECONDS:
            work.say(f"waiting for {'; '.join(left.values())}")
            told = now
        time.sleep(0.2)
        current = work.database.writers(ids)
        left = {key: who for key, who in left.items() if key in current}
    return {"waited_for": len(first), "seconds": round(time.monotonic() - began, 3)}


SIGNAL_TABLE = Step("signal-table", "the source has the table that the connector takes signals from", signal_table)
CONNECTOR = Step(
    "connector", "the connector and its publication have old and new tables (its task restarts)", connector, without_tables
)
WRITERS = Step("writers", "transactions that wrote to them before they were published have ended", writers)
