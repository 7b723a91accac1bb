"""The temporary connector: a first snapshot of the new tables beside the running connector, which stops for seconds only.

1. The running connector is stopped; Connect keeps its offsets (KIP-875). C is the commit it has streamed last.
2. The tables enter its publication, and it goes on from C with old and new tables: from here on every change is streamed.
3. Once whoever had written to them before has ended, a connector with a name, slot and publication of its own reads the
   tables (`initial_only`) into the same topics. Its rows carry C in a header, and bronze ranks them at C
   (spark.bronze_drafts): above whatever was streamed before the stop, below every change streamed after it.
4. It is removed with its slot, publication and offsets.

So the order in which rows and changes come into the topic does not matter. By the snapshot's own LSN it would: a
transaction that is open when the snapshot is taken carries the commit before it, which may be below that LSN, and its
change would lose against a row that does not contain it.
"""

from __future__ import annotations

import time

from cdc_assets import names
from cdc_assets.connectors.beginning import begin_anew
from cdc_assets.connectors.postgresql import temporary_config
from cdc_assets.errors import OnboardingError
from cdc_assets.onboarding.state import Facts
from cdc_assets.onboarding.steps.capture import reconfigured, without_tables
from cdc_assets.onboarding.steps.snapshot import followed, notification_ends
from cdc_assets.onboarding.work import Step, Work


def stop(work: Work) -> Facts:
    """The running connector has no task any more; the commit that it has streamed last."""
    began = time.time()
    work.platform.core_connect().stop(names.connector_name(work.after))
    return stopped_at(work, began)


def stopped_at(work: Work, began: float) -> Facts:
    """The commit that the stopped connector has streamed last.

    Raises:
        OnboardingError: it has not streamed anything yet.
    """
    connect, name = work.platform.core_connect(), names.connector_name(work.after)
    offsets = [entry["offset"] for entry in connect.offsets(name) if entry.get("offset")]
    if len(offsets) != 1:
        raise OnboardingError(
            f"connector {name} has {len(offsets)} stored offsets, expected 1; it has not streamed anything yet: cdc onboard "
            f"{work.after.name} --rollback, then let it run, or take route incremental"
        )
    # Before its first streamed commit there is only the place of its own snapshot.
    anchor = int(offsets[0].get("lsn_commit") or offsets[0]["lsn"])
    return {"anchor": anchor, "stopped_at": round(began, 3)}


def go_on(work: Work) -> Facts:
    """The connector runs again, from where it was, with old and new tables."""
    reconfigured(work, work.after)
    return {"stopped_seconds": round(time.time() - work.state.fact("stop", "stopped_at"), 3)}


def snapshot(work: Work) -> Facts:
    """The temporary connector has read every table."""
    connect = work.platform.core_connect()
    config = temporary_config(work.after, work.tables, anchor=work.state.fact("stop", "anchor"))
    remove(work)
    start = notification_ends(work)
    begin_anew(connect, config)
    return {"connector": config["name"], **followed(work, config["name"], start)}


def remove(work: Work) -> Facts:
    """The temporary connector, its offsets, slot and publication are gone."""
    connect, name = work.platform.core_connect(), names.temporary(names.connector_name(work.after))
    if connect.config(name) is not None:
        connect.stop(name)
        connect.reset_offsets(name)
        connect.delete(name)
    return {"connector": name, "slot_dropped": cleared(work)}


def cleared(work: Work) -> bool:
    """The stopped temporary connector's publication is gone, and its slot; whether there was one."""
    slot = work.database.drop_slot(names.temporary(names.slot_name(work.after)))
    work.database.drop_publication(names.temporary(names.publication_name(work.after)))
    return slot


STOP = Step("stop", "the running connector is stopped, its offsets are kept", stop, without_tables)
GO_ON = Step("go-on", "it goes on from where it was, with old and new tables in its publication", go_on)
SNAPSHOT = Step(
    "snapshot", "a temporary connector (initial_only, own name and slot) reads the tables into their topics", snapshot, remove
)
REMOVE = Step("remove", "the temporary connector is removed, with offsets, slot and publication", remove)
