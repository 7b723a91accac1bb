"""The temporary connector: a first snapshot of the new tables beside the running connector, which stops for seconds only.

1. The running connector is stopped; Connect keeps its offsets (KIP-875).
2. It goes on from there with old and new tables: from here on every change is streamed.
3. Once whoever had written to them before has ended, a connector with a name and leftovers of its own reads the tables
   (`initial_only`) into the same topics.
4. It is removed with its offsets, and its slot and publication (PostgreSQL) or its schema history (MariaDB, MySQL).

The order in which rows and changes come into the topic does not matter. PostgreSQL's rows carry the commit C of the stop in a
header, and bronze ranks them there (spark.bronze.drafts): above whatever was streamed before, below every change streamed after.
By the snapshot's own LSN it would matter: a transaction that is open when the snapshot is taken carries the commit before it,
which may be below that LSN, and its change would lose against a row that does not contain it. MariaDB's and MySQL's rows carry
the place of the binlog at which they were read under a lock: what lies below is in them, what lies above is not.
"""

from __future__ import annotations

import time

from cdc_assets.connectors.beginning import begin_anew
from cdc_assets.onboarding.state import Facts
from cdc_assets.onboarding.steps.capture import reconfigure, without_tables
from cdc_assets.onboarding.steps.snapshot import follow_snapshot, notification_ends
from cdc_assets.onboarding.temporary_connector import remove_beside
from cdc_assets.onboarding.work import OnboardingWork, Step


def stop(work: OnboardingWork) -> Facts:
    """The running connector has no task any more; what the steps behind need to know of that moment."""
    return work.kind.stop(work)


def go_on(work: OnboardingWork) -> Facts:
    """The connector runs again, from where it was, with old and new tables."""
    facts, stopped_at = reconfigure(work, work.after), work.state.fact("stop", "stopped_at")
    return {"stopped_seconds": facts["stopped_seconds"] if stopped_at is None else round(time.time() - stopped_at, 3)}


def snapshot(work: OnboardingWork) -> Facts:
    """The temporary connector has read every table."""
    config = work.kind.temporary_config(work)
    remove_beside(work)
    start = notification_ends(work)
    begin_anew(work.core_connect, config)
    return {"connector": config["name"], **follow_snapshot(work, config["name"], start)}


STOP = Step("stop", "the running connector is stopped, its offsets are kept", stop, without_tables)
GO_ON = Step("go-on", "it goes on from where it was, with old and new tables", go_on)
SNAPSHOT = Step(
    "snapshot", "a temporary connector (initial_only, own name) reads the tables into their topics", snapshot, remove_beside
)
REMOVE = Step("remove", "the temporary connector is removed, with its offsets and whatever else it has left", remove_beside)
