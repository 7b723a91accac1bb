"""The steps that change connectors and topics: what must hold before, topics and mirror as declared, the running connector
that takes tables in or leaves them, and a temporary one beside it.

Each may be repeated. The temporary connector reads the new tables first, so that the running one stops for seconds only;
nothing of it is left afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from cdc_assets.capture.connectors.apply_connector import HELD, bring_connector, make_topic
from cdc_assets.capture.connectors.connector_start import begin_anew
from cdc_assets.capture.connectors.debezium_settings import SIGNALS
from cdc_assets.capture.connectors.debezium_signals import is_unsignallable
from cdc_assets.capture.connectors.declared_connectors import as_listed, capture_config, not_listed, tables_in_list
from cdc_assets.capture.connectors.mirrormaker2 import mirror_config
from cdc_assets.capture.connectors.postgresql_connector import temporary_config
from cdc_assets.capture.connectors.setting_overrides import is_listed, settle
from cdc_assets.capture.onboarding.onboarding_state import Facts, OnboardingWork, Step
from cdc_assets.capture.onboarding.postgresql_onboarding import capture_of, last_streamed_commit
from cdc_assets.capture.onboarding.registry_entries import file_of, remove_tables
from cdc_assets.capture.onboarding.snapshot import follow_snapshot, notification_ends
from cdc_assets.capture.preflight.capturable_tables import refuse_uncapturable
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import CapturedSource

if TYPE_CHECKING:
    from cdc_assets.clients.connect import ConnectClient

# Connect asks the plugin and the database about a config before it keeps it: a PUT whose sender was killed is kept after that.
_IN_FLIGHT_SECONDS, _POLL_SECONDS = 5.0, 0.25


def remove_beside(work: OnboardingWork) -> Facts:
    """The temporary connector is gone, with its offsets and whatever else its kind has."""
    connect, name = work.core_connect, names.temporary(names.connector_name(work.after))
    if _is_there(connect, name):
        connect.stop(name)
        connect.reset_offsets(name)
        connect.delete(name)
    return {"connector": name, **work.kind.clear_leftovers(work)}


def _is_there(connect: ConnectClient, name: str) -> bool:
    until = time.monotonic() + _IN_FLIGHT_SECONDS
    while connect.config(name) is None:
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_SECONDS)
    return True


_BY_SIGNAL = ("signal.enabled.channels", "notification.enabled.channels", "notification.sink.topic.name")


def check_prerequisites(work: OnboardingWork) -> Facts:
    """Every finding at once, with what mends it."""
    source, ids = work.after, [table.id for table in work.tables]
    catalogue = work.database.tables([table.id for table in source.tables])
    findings = [f"there is no table {i}; create it, or correct its name" for i in ids if i not in catalogue]
    findings += work.kind.unready(work, ids)
    for table in work.tables:
        if table.id in catalogue and not (catalogue[table.id].primary_key or table.keys):
            findings.append(work.kind.keyless.format(table=table.name))
    if work.state.route != "temporary":
        wide = [table.name for table in work.tables if is_unsignallable(table.id)]
        findings += list(_find_unsignalled(source))
        findings += [f"{name}: no signal can name it (a blank, quote or dot in it); take route temporary" for name in wide]
    if not findings:
        asked_for = source.model_copy(update={"tables": work.tables})
        refuse_uncapturable(work.database, asked_for, work.kind.columns(work, catalogue), to_read=ids)
    name = names.connector_name(source)
    status = work.core_connect.status(name)
    if status is None or not status.running:
        seen = "does not exist" if status is None else f"is {status.state}, tasks {', '.join(status.tasks) or 'none'}"
        first = f"cdc resume {name}" if status is not None and status.state in HELD else "materialize it"
        findings.append(f"connector {name} {seen}; {first}, then {work.resume}")
    if findings:
        raise RefusalError(f"{work.database.place}: nothing was changed:\n" + "\n".join(f"  {f}" for f in findings))
    listing = tables_in_list(source, work.core_connect.config(name) or {})
    return {
        "tables": {table.name: len(catalogue[table.id].columns) for table in work.tables},
        "connector": name,
        "captured": [table.name for table in work.tables if table.name in listing],
    }


def _find_unsignalled(source: CapturedSource) -> Iterator[str]:
    """A connector that was taken over may have neither signals nor notifications."""
    out = [key for key in (SIGNALS, *_BY_SIGNAL) if source.capture.settings.get(key, "") is None]
    if out:
        yield (
            f"{', '.join(out)} are left out by capture.settings of {source.name}, so its connector takes no signals: take these "
            "lines out of capture.settings (it gets ours while it is stopped for the tables), or take --route temporary"
        )


PREREQUISITES = Step("preflight", "the tables exist, have a key, can be published, and the connector runs", check_prerequisites)


_TOPIC_DEADLINE_SECONDS = 120.0


def make_topics(work: OnboardingWork) -> Facts:
    """Each table's topic on the core cluster, with the offsets at which this onboarding finds it."""
    core, source = work.core_kafka, work.after
    ends_of = {}
    for table in work.tables:
        name = names.topic(source, table)
        ends_of[name] = make_topic(core, source, table, deadline=_TOPIC_DEADLINE_SECONDS).ends
    before = work.state.done.get("topics", {}).get("ends")
    return {"ends": before or {name: {str(p): end for p, end in ends.items()} for name, ends in ends_of.items()}}


def mirror_topics(work: OnboardingWork) -> Facts:
    """MirrorMaker 2 carries the new topics; waits until they are in the lake's cluster."""
    began, connect, declared = time.monotonic(), work.platform.lake_connect(), mirror_config(work.after)
    if work.after.mirror.new_tables == "first" and connect.config(declared["name"]) != declared:
        # The new tables' topics, without those that the mirror carries; what is kept of its list would have them too.
        bare = work.after.mirror.model_copy(update={"settings": {}})
        alone = mirror_config(work.after.model_copy(update={"tables": work.tables, "mirror": bare}))
        bring_connector(connect, work.after, {**declared, "topics": alone["topics"]})
        _await_copies(work)
    applied = bring_connector(connect, work.after, declared)
    _await_copies(work)
    return {"connector": applied.name, "change": applied.summary, "seconds": round(time.monotonic() - began, 3)}


def _await_copies(work: OnboardingWork) -> None:
    lake = work.platform.lake_kafka()
    for table in work.tables:
        lake.await_state(names.lake_topic(work.after, table), deadline=_TOPIC_DEADLINE_SECONDS)


def without_mirror(work: OnboardingWork) -> Facts:
    """The mirror carries what it did before; the topics stay, with whatever is in them."""
    return {"mirror": bring_connector(work.platform.lake_connect(), work.before, mirror_config(work.before)).summary}


TOPICS = Step("topics", "their topics are made on the core cluster", make_topics)
MIRROR = Step("mirror", "the mirror connector carries their topics to the lake's cluster", mirror_topics, without_mirror)


def make_signal_table(work: OnboardingWork) -> Facts:
    """The table through which snapshots are asked for."""
    table = names.signal_table(work.after)
    work.database.ensure_signal_table(table)
    return {"table": str(table)}


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
        raise RefusalError(
            f"connector {name} does not exist any more: cdc apply {source.name} makes it again, and says how it goes "
            f"on; then cdc onboard {source.name} --resume, or --rollback"
        )
    # What else is declared and not listed is not taken in on the way: nobody would read its rows, and it may have been refused.
    listed = as_listed(source, running, work.state.tables)
    config = settle(capture_config(listed), running)
    if findings := connect.validate(config):
        lines = "; ".join(f"{key}: {' '.join(errors)}" for key, errors in sorted(findings.items()))
        raise RefusalError(f"connector {config['name']} is not valid with these tables, nothing was applied: {lines}")
    began = work.kind.halt(work, source)
    connect.put_config(config["name"], config)
    work.kind.update_capture(work, source)
    connect.resume(config["name"])
    connect.wait_running(config["name"])
    return {"connector": config["name"], "tables": len(listed.tables), "stopped_seconds": round(time.monotonic() - began, 3)}


def await_writers(work: OnboardingWork) -> Facts:
    """Wait for the end of the transactions that have written to the tables before their changes were captured."""
    return work.kind.await_writers(work)


SIGNAL_TABLE = Step(
    "signal-table", "the source has the table that the connector takes signals from", make_signal_table, without_signals
)
CONNECTOR = Step(
    "connector",
    "the connector and its publication have old and new tables (stopped for a moment)",
    # Its offsets are kept, and it goes on with the new list and whatever else its kind needs to know of the tables. A config put
    # under a running connector restarts its task twice, the first time with the old list, which would set a publication back
    # behind us; and a status read meanwhile is the old task's.
    lambda work: reconfigure(work, work.after),
    without_tables,
)
WRITERS = Step("writers", "transactions that wrote to them before they were published have ended", await_writers)


def stop_connector(work: OnboardingWork) -> Facts:
    """The running connector has no task any more; what the steps behind need to know of that moment.

    It is the first of the steps by which a temporary connector takes a first snapshot of the new tables beside the running one:

    1. The running connector is stopped; Connect keeps its offsets (KIP-875).
    2. It goes on from there with old and new tables: from here on every change is streamed.
    3. Once whoever had written to them before has ended, a connector with a name and leftovers of its own reads the tables
       (`initial_only`) into the same topics.
    4. It is removed with its offsets, and its slot and publication (PostgreSQL) or its schema history (MariaDB, MySQL).

    The order in which rows and changes come into the topic does not matter. PostgreSQL's rows carry the commit C of the stop in
    a header, and bronze ranks them there (spark.bronze.batch_records): above whatever was streamed before, below every change
    streamed after. By the snapshot's own LSN it would matter: a transaction that is open when the snapshot is taken carries the
    commit before it, which may be below that LSN, and its change would lose against a row that does not contain it. MariaDB's
    and MySQL's rows carry the place of the binlog at which they were read under a lock: what lies below is in them, what lies
    above is not.
    """
    return work.kind.stop(work)


def resume_connector(work: OnboardingWork) -> Facts:
    """The connector runs again, from where it was, with old and new tables."""
    facts, stopped_at = reconfigure(work, work.after), work.state.fact("stop", "stopped_at")
    return {"stopped_seconds": facts["stopped_seconds"] if stopped_at is None else round(time.time() - stopped_at, 3)}


def read_beside(work: OnboardingWork) -> Facts:
    """The temporary connector has read every table."""
    config = work.kind.temporary_config(work)
    remove_beside(work)
    start = notification_ends(work)
    begin_anew(work.core_connect, config)
    return {"connector": config["name"], **follow_snapshot(work, config["name"], start)}


STOP_CONNECTOR = Step("stop", "the running connector is stopped, its offsets are kept", stop_connector, without_tables)
RESUME_CONNECTOR = Step("go-on", "it goes on from where it was, with old and new tables", resume_connector)
TEMPORARY_SNAPSHOT = Step(
    "snapshot", "a temporary connector (initial_only, own name) reads the tables into their topics", read_beside, remove_beside
)
REMOVE_TEMPORARY = Step(
    "remove", "the temporary connector is removed, with its offsets and whatever else it has left", remove_beside
)


def check_tables(work: OnboardingWork) -> Facts:
    """The tables are the source's, and not all of them."""
    declared = {table.name for table in work.declared.tables}
    unknown = [name for name in work.state.tables if name not in declared]
    if unknown:
        raise RefusalError(f"{work.declared.name} has no table {', '.join(unknown)}; it has: {', '.join(sorted(declared))}")
    if not work.before.tables:
        raise RefusalError(f"{', '.join(sorted(declared))} are all tables of {work.declared.name}: delete its connector instead")
    listed = work.declared.capture.settings.get("table.include.list") or ""
    if still := [".".join(table.id) for table in work.tables if is_listed(".".join(table.id), filter(None, listed.split(",")))]:
        raise RefusalError(
            f"capture.settings of {work.declared.name} has table.include.list: {listed}, which takes {', '.join(still)} still: "
            f"take it out of the list in the registry, then cdc offboard {work.declared.name} --resume"
        )
    return {"left": sorted(declared - set(work.state.tables))}


def undeclare_tables(work: OnboardingWork) -> Facts:
    """They are no longer declared."""
    file = file_of(settings.sources_folder(), work.declared.name)
    return {"file": str(file), "removed": remove_tables(file, work.state.tables)}


KNOWN_TABLES = Step("known", "the tables are declared, and others stay", check_tables)
CONNECTOR_WITHOUT_TABLES = Step(
    "connector", "the connector and its publication are without them (stopped for a moment)", without_tables
)
MIRROR_WITHOUT_TABLES = Step("mirror", "the mirror connector no longer carries their topics", without_mirror)
REGISTRY_WITHOUT_TABLES = Step("registry", "the tables are taken out of the source's registry file", undeclare_tables)


# The same steps where git is the way: what others apply (topics, mirror, connector) is waited for, not done.
#
# The connector is the delicate one. Whoever applies its config restarts its task, perhaps twice, the first time with the old
# list, and in mode `filtered` each start sets the publication to its own list. So once Connect's task has the new config it is
# restarted once more, from here: the process that is then seen at the slot has the new list, and no older one can follow.
#
# The temporary connector is made, stopped and taken away by commits too; between the last two its offsets are reset from here,
# since Connect would keep them under its name, and the next connector of that name would read nothing.
_DEADLINE_SECONDS = 24 * 3600.0
_TOLD_EVERY_SECONDS = 60.0
_GIT_POLL_SECONDS = 0.5
# Which tables, and behind which commit their rows stand.
_ANCHORED = ("table.include.list", "transforms.anchor.value.literal")


def await_topics(work: OnboardingWork) -> Facts:
    """Each table's topic is on the core cluster."""
    topics = [names.topic(work.after, table) for table in work.tables]
    core = work.core_kafka
    _await(work, lambda: set(topics) <= set(core.states(topics)), f"topic {', '.join(topics)} on {core.bootstrap}")
    ends = {name: {str(p): end for p, end in state.ends.items()} for name, state in core.states(topics).items()}
    return {"ends": work.state.done.get("topics", {}).get("ends") or ends}


def await_mirror(work: OnboardingWork) -> Facts:
    """Each table's copy is on the lake's cluster."""
    topics, lake = [names.lake_topic(work.after, table) for table in work.tables], work.platform.lake_kafka()
    _await(
        work,
        lambda: set(topics) <= set(lake.states(topics)),
        f"topic {', '.join(topics)} on {lake.bootstrap}, by the mirror",
    )
    return {"topics": ", ".join(topics)}


def await_connector(work: OnboardingWork) -> Facts:
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


def await_stop(work: OnboardingWork) -> Facts:
    """The running connector has no task any more; the commit that it has streamed last."""
    name = names.connector_name(work.after)
    _await(work, lambda: _is_stopped(work, name), f"connector {name} to be STOPPED")
    return last_streamed_commit(work, time.time())


def await_resumption(work: OnboardingWork) -> Facts:
    """The connector runs again, with old and new tables; what the temporary one will say comes behind `notifications`."""
    facts = await_connector(work)
    stopped = round(time.time() - work.state.fact("stop", "stopped_at"), 3)
    return {**facts, "stopped_seconds": stopped, "notifications": notification_ends(work)}


def await_snapshot(work: OnboardingWork) -> Facts:
    """The temporary connector has read every table, with the position in its rows that belongs there.
    Raises RefusalError: it was made with another one."""
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


def clear_temporary(work: OnboardingWork) -> Facts:
    """The temporary connector is stopped; its offsets, slot and publication are gone."""
    connect, name = work.core_connect, names.temporary(names.connector_name(work.after))

    _await(work, lambda: connect.status(name) is None or _is_stopped(work, name), f"connector {name} to be STOPPED")
    if connect.config(name) is not None:
        connect.reset_offsets(name)
    return {"connector": name, **work.kind.clear_leftovers(work)}


def await_removal(work: OnboardingWork) -> Facts:
    """The temporary connector is gone."""
    connect, name = work.core_connect, names.temporary(names.connector_name(work.after))
    _await(work, lambda: connect.config(name) is None, f"connector {name} to be gone")
    return {"connector": name}


def _is_stopped(work: OnboardingWork, name: str) -> bool:
    status = work.core_connect.status(name)
    return status is not None and status.stopped


def _await(work: OnboardingWork, reached: Callable[[], bool], what: str) -> None:
    """Poll, and say now and then what is waited for. Raises RefusalError: after a day."""
    began, told_at = time.monotonic(), -_TOLD_EVERY_SECONDS
    while not reached():
        now = time.monotonic() - began
        if now > _DEADLINE_SECONDS:
            raise RefusalError(f"{what}: not there after {now:.0f} s; cdc onboard {work.after.name} --resume waits on")
        if now - told_at >= _TOLD_EVERY_SECONDS:
            work.say(f"waiting for {what}")
            told_at = now
        time.sleep(_GIT_POLL_SECONDS)


WATCHED_STEPS = (
    Step("topics", "their topics come to the core cluster, by the first commit", await_topics),
    Step("mirror", "their copies come to the lake's cluster, by the first commit", await_mirror),
    Step("connector", "the connector gets old and new tables, by the second commit; it is restarted once", await_connector),
    Step("stop", "the running connector is stopped, its offsets are kept, by the second commit", await_stop),
    Step(
        "go-on",
        "it goes on from where it was, with old and new tables, by the third commit; it is restarted once",
        await_resumption,
    ),
)
WATCHED_SNAPSHOT = Step(
    "snapshot", "a temporary connector reads the new tables alone into their topics, by the fourth commit", await_snapshot
)
WATCHED_REMOVAL = (
    Step(
        "clear", "the temporary connector is stopped, by the fifth commit; its offsets, slot and publication go", clear_temporary
    ),
    Step("remove", "the temporary connector is removed, by the sixth commit", await_removal),
)
