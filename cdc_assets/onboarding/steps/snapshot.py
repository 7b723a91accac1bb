"""A snapshot is asked for by a signal, and followed by Debezium's own notifications.

The signal is a row of the signal table: the connector meets it in the log, on the thread that streams, so no change can
slip between what it has read and what it has streamed. (A signal by topic is read on another thread: the first chunk of
rows is then gathered while streaming goes on, and a change of one of them in between is overwritten by its older row.)
https://debezium.io/documentation/reference/3.7/configuration/signalling.html, …/notification.html
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator

from cdc_assets import names
from cdc_assets.connectors.apply import HELD
from cdc_assets.connectors.notifications import FINE, Notification
from cdc_assets.connectors.signals import collection, own_rows_condition
from cdc_assets.errors import OnboardingError
from cdc_assets.onboarding.state import Facts
from cdc_assets.onboarding.work import OnboardingWork, Step
from cdc_assets.quantity import quantity

_POLL_SECONDS = 0.3
_SILENCE_SECONDS = 60.0
"""Without a word from the connector for so long, it may have died with the signal read and nothing begun. One that has not been
started since is busy: with what lies before the signal, a large table, or a lock. Each further signal would be a further reading,
by a blocking snapshot with all tables standing still."""
_DEADLINE_SECONDS = 24 * 3600.0
_NOT_READ = "SQL_EXCEPTION"


class Notifications:
    """Reads the notification topic from an offset on."""

    def __init__(self, work: OnboardingWork, start: dict[str, int]) -> None:
        self._kafka = work.platform.core_kafka()
        self._topic = names.notification_topic(work.after)
        self._read = {int(p): offset for p, offset in start.items()}

    def new(self) -> Iterator[Notification]:
        """What has come since the last call."""
        state = self._kafka.states([self._topic]).get(self._topic)
        if state is None:
            return
        ranges = {p: (max(self._read.get(p, 0), begin), end) for p, (begin, end) in state.ranges.items()}
        for record in self._kafka.records(self._topic, ranges):
            yield Notification.of(record)
        self._read = {p: end for p, (_, end) in ranges.items()}


def notification_ends(work: OnboardingWork) -> dict[str, int]:
    """Where the notification topic ends now."""
    topic = names.notification_topic(work.after)
    state = work.platform.core_kafka().states([topic]).get(topic)
    return {} if state is None else {str(p): end for p, end in state.ends.items()}


def by_signal(kind: str) -> Step:
    """The step that asks for an `incremental` or a `blocking` snapshot and waits until every table is read."""

    def run(work: OnboardingWork) -> Facts:
        return signal_snapshot(work, kind)

    return Step("snapshot", f"{kind} snapshot of the tables, asked for by signal; their rows are in the topics", run, stop)


def stop(work: OnboardingWork) -> Facts:
    """Ask the connector to give up an incremental snapshot that still runs."""
    if (table := names.signal_table(work.after)) not in work.database.tables([table]):
        return {"asked": "nothing: there is no signal table any more"}
    collections = [collection(each.id) for each in work.tables]
    data = json.dumps({"data-collections": collections, "type": "incremental"})
    work.database.send_signal(table, f"{work.state.id}-stop", "stop-snapshot", data)
    return {"asked": "stop-snapshot"}


def signal_snapshot(work: OnboardingWork, kind: str) -> Facts:
    """Ask for a snapshot of the tables, and wait until they are read."""
    table = names.signal_table(work.after)
    collections = [collection(t.id) for t in work.tables]
    # A blocking snapshot reads by the connector's own SELECT.
    own = [
        {"data-collection": ".".join(t.id), "filter": own_rows_condition(t.id)}
        for t in work.tables
        if t.only and kind == "incremental"
    ]
    data = json.dumps({"data-collections": collections, "type": kind, **({"additional-conditions": own} if own else {})})
    sent: list[str] = []

    def ask() -> None:
        sent.append(f"{work.state.id}-{uuid.uuid4().hex[:8]}")
        work.database.send_signal(table, sent[-1], "execute-snapshot", data)

    facts = follow_snapshot(work, names.connector_name(work.after), notification_ends(work), ask)
    return {"kind": kind, **facts, "signals": len(sent), "signal_rows_cleared": work.database.clear_signals(table)}


def follow_snapshot(work: OnboardingWork, connector: str, start: dict[str, int], ask: Callable[[], None] | None = None) -> Facts:
    """Wait until the connector has said of every table that it is read, asking again when it keeps silent.

    A connector that outlives the session in which it reads tables (`Kind.outlives_session`) cannot read until it is restarted:
    so it is, once.

    Raises:
        OnboardingError: when it says that it cannot read a table, comes to no end, or somebody has stopped or deleted it.
        ConnectorFailedError: when it fails, and fails again after a restart.
    """
    began = time.monotonic()
    rows: dict[str, int] = {}
    notifications, open_tables = Notifications(work, start), {".".join(t.id) for t in work.tables}
    reader = work.kind.reader(work) if ask is not None else ""
    if ask is not None:
        ask()
    heard = told = time.monotonic()
    mendable = ask is not None and work.kind.outlives_session
    while open_tables:
        messages = [*notifications.new()]
        if mendable and ask is not None and any(message.data.get("status") == _NOT_READ for message in messages):
            mendable = False
            _restart(work, connector)
            for _ in notifications.new():
                pass  # what the task of before has said is no answer to what is asked now
            messages = []
            ask()
            heard = told = time.monotonic()
        for message in messages:
            heard = told = time.monotonic()
            _progress(work, message, open_tables, rows)
        if open_tables and time.monotonic() - told >= _SILENCE_SECONDS:
            told = time.monotonic()
            now = work.kind.reader(work) if ask is not None else ""
            if ask is not None and now not in ("", reader):
                reader = now
                ask()
            else:
                work.say(f"no word from {connector} for {told - heard:.0f} s: it is busy, or waits for a lock on a table")
        if time.monotonic() - began > _DEADLINE_SECONDS:
            left = ", ".join(sorted(open_tables))
            raise OnboardingError(f"no end of the snapshot of {left}; {work.resume}")
        _refuse_halted(work, connector)
        time.sleep(_POLL_SECONDS)
    return {"seconds": round(time.monotonic() - began, 3), "rows_scanned": rows}


def _progress(work: OnboardingWork, message: Notification, open_tables: set[str], rows: dict[str, int]) -> None:
    """Take note of one notification.

    Raises:
        OnboardingError: when Debezium says that it could not read a table.
    """
    name = message.table
    if name in open_tables:
        status = message.data.get("status", "")
        if status not in FINE:
            raise OnboardingError(
                f"the snapshot of {name} ended with {status}; the connector's log says why; mend it, then {work.resume}"
                f"{work.or_rollback}"
            )
        open_tables.discard(name)
        rows[name] = message.rows
        work.say(f"{name}: {quantity(rows[name], 'row')} read")
    elif message.type == "IN_PROGRESS":
        current = message.data.get("current_collection_in_progress", "")
        key = message.data.get("last_processed_key")
        # Only an incremental snapshot goes by keys.
        work.say(f"{current}: read up to key {key} of {message.data.get('maximum_key')}" if key else f"{current}: is being read")


def _restart(work: OnboardingWork, connector: str) -> None:
    work.say(f"{connector} could not read ({_NOT_READ}), perhaps in a session that the server has closed: restarted")
    work.platform.core_connect().restart(connector)
    work.platform.core_connect().wait_running(connector)


def _refuse_halted(work: OnboardingWork, connector: str) -> None:
    status = work.platform.core_connect().status(connector)
    if status is None:
        raise OnboardingError(
            f"connector {connector} does not exist any more; cdc apply {work.after.name}, then {work.resume}{work.or_rollback}"
        )
    if status.state in HELD:
        raise OnboardingError(
            f"connector {connector} is {status.state}; cdc resume {connector}, then {work.resume}{work.or_rollback}"
        )
    if status.failed:
        work.platform.core_connect().wait_running(connector)
