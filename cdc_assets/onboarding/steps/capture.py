"""The running connector takes the tables in, and every change from then on is decoded.

Changes written before a table is in the publication are not decoded, and Debezium's mode `filtered` adds it only when the
connector starts (design trap: a snapshot that begins before loses them). So the connector is stopped for a moment, its
offsets kept, and goes on with the new list and the tables published. A transaction that wrote
before and commits later is in no event at all, so whoever held a writer's lock on the tables when the publication had
them is awaited before anything is read. Writers that come later are not held up, nor waited for.
"""

from __future__ import annotations

import time

from cdc_assets import names
from cdc_assets.connectors.postgresql import capture_config
from cdc_assets.errors import OnboardingError
from cdc_assets.onboarding.state import Facts
from cdc_assets.onboarding.work import Step, Work
from cdc_assets.registry.models import Source

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
    return reconfigured(work, work.after)


def without_tables(work: Work) -> Facts:
    """The connector runs with what it had before, and its publication too."""
    return reconfigured(work, work.before)


def reconfigured(work: Work, source: Source) -> Facts:
    """Stop, configure, publish, go on.

    A config put under a running connector restarts its task twice, the first time with the old list, which would set
    the publication back behind us; and a status read meanwhile is the old task's.
    """
    connect, config = work.platform.core_connect(), capture_config(source)
    if findings := connect.validate(config):
        lines = "; ".join(f"{key}: {' '.join(errors)}" for key, errors in sorted(findings.items()))
        raise OnboardingError(f"connector {config['name']} is not valid with these tables, nothing was applied: {lines}")
    began = time.monotonic()
    connect.stop(config["name"])
    connect.put_config(config["name"], config)
    publication, ids = names.publication_name(source), [table.id for table in work.tables]
    if source is work.after:
        work.database.publish(publication, ids)
    else:
        work.database.unpublish(publication, ids)
    connect.resume(config["name"])
    connect.wait_running(config["name"])
    return {"connector": config["name"], "tables": len(source.tables), "stopped_seconds": round(time.monotonic() - began, 3)}


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
    "connector", "the connector and its publication have old and new tables (stopped for a moment)", connector, without_tables
)
WRITERS = Step("writers", "transactions that wrote to them before they were published have ended", writers)
