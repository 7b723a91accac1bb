"""The same steps where git is the way: what others apply (topics, mirror, connector) is waited for, not done.

The connector is the delicate one. Whoever applies its config restarts its task, perhaps twice, the first time with the old list,
and in mode `filtered` each start sets the publication to its own list. So once Connect's task has the new config it is
restarted once more, from here: the process that is then seen at the slot has the new list, and no older one can follow.

The temporary connector is made, stopped and taken away by commits too; between the last two its offsets are reset from here,
since Connect would keep them under its name, and the next connector of that name would read nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from cdc_assets.capture.connectors.declared_connectors import not_listed
from cdc_assets.capture.connectors.postgresql_connector import temporary_config
from cdc_assets.capture.onboarding.onboarding_state import Facts, OnboardingWork, Step
from cdc_assets.capture.onboarding.postgresql_onboarding import capture_of, last_streamed_commit
from cdc_assets.capture.onboarding.snapshot import follow_snapshot, notification_ends
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError

_DEADLINE_SECONDS = 24 * 3600.0
_TOLD_EVERY_SECONDS = 60.0
_POLL_SECONDS = 0.5
# Which tables, and behind which commit their rows stand.
_ANCHORED = ("table.include.list", "transforms.anchor.value.literal")


def topics(work: OnboardingWork) -> Facts:
    """Each table's topic is on the core cluster."""
    topics = [names.topic(work.after, table) for table in work.tables]
    core = work.core_kafka
    _await(work, lambda: set(topics) <= set(core.states(topics)), f"topic {', '.join(topics)} on {core.bootstrap}")
    ends = {name: {str(p): end for p, end in state.ends.items()} for name, state in core.states(topics).items()}
    return {"ends": work.state.done.get("topics", {}).get("ends") or ends}


def mirror(work: OnboardingWork) -> Facts:
    """Each table's copy is on the lake's cluster."""
    topics, lake = [names.lake_topic(work.after, table) for table in work.tables], work.platform.lake_kafka()
    _await(work, lambda: set(topics) <= set(lake.states(topics)), f"topic {', '.join(topics)} on {lake.bootstrap}, by the mirror")
    return {"topics": ", ".join(topics)}


def connector(work: OnboardingWork) -> Facts:
    """The connector's task has old and new tables, and has started with them."""
    connect, name = work.core_connect, names.connector_name(work.after)

    def has_the_list() -> bool:
        configs = connect.task_configs(name)
        return bool(configs) and not any(not_listed(work.after, config) for config in configs)

    _await(work, has_the_list, f"the tables in the list of connector {name}")
    connect.wait_running(name)
    slot = names.slot_name(work.after)
    database = capture_of(work.declared)
    before = database.slot_process(slot)
    connect.restart(name)
    _await(work, lambda: database.slot_process(slot) not in ("", before), f"connector {name} at slot {slot}")
    connect.wait_running(name)
    return {"connector": name, "tables": len(work.after.tables)}


def stop(work: OnboardingWork) -> Facts:
    """The running connector has no task any more; the commit that it has streamed last."""
    name = names.connector_name(work.after)
    _await(work, lambda: _is_stopped(work, name), f"connector {name} to be STOPPED")
    return last_streamed_commit(work, time.time())


def go_on(work: OnboardingWork) -> Facts:
    """The connector runs again, with old and new tables; what the temporary one will say comes behind `notifications`."""
    facts = connector(work)
    stopped = round(time.time() - work.state.fact("stop", "stopped_at"), 3)
    return {**facts, "stopped_seconds": stopped, "notifications": notification_ends(work)}


def snapshot(work: OnboardingWork) -> Facts:
    """The temporary connector has read every table, with the position in its rows that belongs there.

    Raises:
        RefusalError: it was made with another one.
    """
    connect, name = work.core_connect, names.temporary(names.connector_name(work.after))
    declared = temporary_config(work.after, work.tables, anchor=work.state.fact("stop", "anchor"))
    _await(work, lambda: connect.config(name) is not None, f"connector {name}, which reads the new tables alone")
    deployed = connect.config(name) or {}
    if wrong := sorted(key for key in _ANCHORED if deployed.get(key) != declared[key]):
        shown = "; ".join(f"{key} is {deployed.get(key)!r}, not {declared[key]!r}" for key in wrong)
        raise RefusalError(
            f"connector {name} is not that of the commit: {shown}; stop it, cdc offsets reset {name}, delete it, apply "
            f"the commit as it is printed, then cdc onboard {work.after.name} --resume"
        )
    return {"connector": name, **follow_snapshot(work, name, work.state.fact("go-on", "notifications"))}


def clear(work: OnboardingWork) -> Facts:
    """The temporary connector is stopped; its offsets, slot and publication are gone."""
    connect, name = work.core_connect, names.temporary(names.connector_name(work.after))

    _await(work, lambda: connect.status(name) is None or _is_stopped(work, name), f"connector {name} to be STOPPED")
    if connect.config(name) is not None:
        connect.reset_offsets(name)
    return {"connector": name, **work.kind.clear_leftovers(work)}


def remove(work: OnboardingWork) -> Facts:
    """The temporary connector is gone."""
    connect, name = work.core_connect, names.temporary(names.connector_name(work.after))
    _await(work, lambda: connect.config(name) is None, f"connector {name} to be gone")
    return {"connector": name}


def _is_stopped(work: OnboardingWork, name: str) -> bool:
    status = work.core_connect.status(name)
    return status is not None and status.stopped


def _await(work: OnboardingWork, reached: Callable[[], bool], what: str) -> None:
    """Poll, and say now and then what is waited for.

    Raises:
        RefusalError: after a day.
    """
    began, told_at = time.monotonic(), -_TOLD_EVERY_SECONDS
    while not reached():
        now = time.monotonic() - began
        if now > _DEADLINE_SECONDS:
            raise RefusalError(f"{what}: not there after {now:.0f} s; cdc onboard {work.after.name} --resume waits on")
        if now - told_at >= _TOLD_EVERY_SECONDS:
            work.say(f"waiting for {what}")
            told_at = now
        time.sleep(_POLL_SECONDS)


STEPS = (
    Step("topics", "their topics come to the core cluster, by the first commit", topics),
    Step("mirror", "their copies come to the lake's cluster, by the first commit", mirror),
    Step("connector", "the connector gets old and new tables, by the second commit; it is restarted once", connector),
    Step("stop", "the running connector is stopped, its offsets are kept, by the second commit", stop),
    Step("go-on", "it goes on from where it was, with old and new tables, by the third commit; it is restarted once", go_on),
)
SNAPSHOT = Step("snapshot", "a temporary connector reads the new tables alone into their topics, by the fourth commit", snapshot)
REMOVE = (
    Step("clear", "the temporary connector is stopped, by the fifth commit; its offsets, slot and publication go", clear),
    Step("remove", "the temporary connector is removed, by the sixth commit", remove),
)
