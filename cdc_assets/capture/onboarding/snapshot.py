"""A snapshot is asked for by a signal, whole or by a condition in the database's own SQL, and followed by Debezium's own
notifications.

The condition is asked of the database before it is sent, since otherwise the connector alone would meet it. The signal is a
row of the signal table, so no change slips between what was read and what was streamed; a snapshot without an end is an
error that names its tables.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from cdc_assets.capture.connectors.apply_connector import HELD
from cdc_assets.capture.connectors.debezium_signals import FINE, Notification, collection, own_rows_condition
from cdc_assets.capture.onboarding.onboarding_state import Facts, OnboardingWork, Step
from cdc_assets.clients.connector_events import event_reader
from cdc_assets.registry import names
from cdc_assets.registry.errors import DatabaseError, RefusalError
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity

if TYPE_CHECKING:
    from cdc_assets.capture.onboarding.onboarding_state import OnboardingWork

_QUOTED = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`""")


def in_parentheses(condition: str) -> str:
    """As it stands beside other conditions; a comment at its end does not swallow the bracket."""
    return f"({condition}\n)"


def refuse_condition(work: OnboardingWork, condition: str) -> None:
    """Ask the database to plan a reading by the condition, of each table; no row is read.

    Debezium puts it into the SELECT of each chunk. A condition that the database refuses would be met by the connector only.
    https://debezium.io/documentation/reference/3.7/configuration/signalling.html#debezium-signaling-ad-hoc-incremental-snapshots

    Raises RefusalError: naming the table and what the database says of the condition.
    """
    if "?" in _QUOTED.sub("", condition):
        raise RefusalError(
            f"--where {condition!r}: a ? outside of quotes stands for a parameter in the connector's driver; write it in another "
            "way, in PostgreSQL jsonb_exists(column, 'key') for column ? 'key'"
        )
    for table in work.tables:
        try:
            work.database.plan_reading(table.id, in_parentheses(condition))
        except DatabaseError as error:
            raise RefusalError(f"--where {condition!r} of {table.name}: {error}; nothing was asked for") from error


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
        self._kafka = work.core_kafka
        self._scope = work.after.database.signal_scope
        self._topic = names.notification_topic(work.after)
        self._read = {int(p): offset for p, offset in start.items()}
        self._event = event_reader(work.after)

    def new(self) -> Iterator[Notification]:
        """What has come since the last call."""
        state = self._kafka.states([self._topic]).get(self._topic)
        if state is None:
            return
        ranges = {p: (max(self._read.get(p, 0), begin), end) for p, (begin, end) in state.ranges.items()}
        for record in self._kafka.records(self._topic, ranges):
            yield Notification.of(record, self._event, self._scope)
        self._read = {p: end for p, (_, end) in ranges.items()}


def notification_ends(work: OnboardingWork) -> dict[str, int]:
    """Where the notification topic ends now."""
    topic = names.notification_topic(work.after)
    state = work.core_kafka.states([topic]).get(topic)
    return {} if state is None else {str(p): end for p, end in state.ends.items()}


def by_signal(kind: str, where: str = "") -> Step:
    """The step that asks for an `incremental` or a `blocking` snapshot and waits until every table is read.

    `where`: of the rows that this condition names, which only an incremental one takes.
    """

    def run(work: OnboardingWork) -> Facts:
        return signal_snapshot(work, kind, where)

    of = f"the rows where {where}" if where else "the tables"
    return Step("snapshot", f"{kind} snapshot of {of}, asked for by signal; their rows are in the topics", run, stop_snapshot)


def stop_snapshot(work: OnboardingWork) -> Facts:
    """Ask the connector to give up an incremental snapshot that still runs."""
    if (table := names.signal_table(work.after)) not in work.database.tables([table]):
        return {"asked": "nothing: there is no signal table any more"}
    collections = [collection(work.after, table.id) for table in work.tables]
    data = json.dumps({"data-collections": collections, "type": "incremental"})
    work.database.send_signal(table, f"{work.state.id}-stop", "stop-snapshot", data)
    return {"asked": "stop-snapshot"}


def signal_snapshot(work: OnboardingWork, kind: str, where: str = "") -> Facts:
    """Ask for a snapshot of the tables, and wait until they are read.

    The signal is a row of the signal table: the connector meets it in the log, on the thread that streams, so no change can
    slip between what it has read and what it has streamed. (A signal by topic is read on another thread: the first chunk of
    rows is then gathered while streaming goes on, and a change of one of them in between is overwritten by its older row.)
    https://debezium.io/documentation/reference/3.7/configuration/signalling.html, …/notification.html
    """
    table = names.signal_table(work.after)
    collections = [collection(work.after, t.id) for t in work.tables]
    # A blocking snapshot reads by the connector's own SELECT.
    filters = {names.collection(work.after, t.id): _filter(t, where) for t in work.tables if kind == "incremental"}
    some = [{"data-collection": name, "filter": condition} for name, condition in filters.items() if condition]
    data = json.dumps({"data-collections": collections, "type": kind, **({"additional-conditions": some} if some else {})})
    sent: list[str] = []

    def ask() -> None:
        sent.append(f"{work.state.id}-{uuid.uuid4().hex[:8]}")
        work.database.send_signal(table, sent[-1], "execute-snapshot", data)

    facts = follow_snapshot(work, names.connector_name(work.after), notification_ends(work), ask)
    return {"kind": kind, **facts, "signals": len(sent), "signal_rows_cleared": work.database.clear_signals(table)}


def _filter(table: Table, where: str) -> str:
    """What the rows must fulfil; empty: nothing."""
    conditions = [own_rows_condition(table.id)] if table.only else []
    return " AND ".join([*conditions, in_parentheses(where)] if where else conditions)


def follow_snapshot(work: OnboardingWork, connector: str, start: dict[str, int], ask: Callable[[], None] | None = None) -> Facts:
    """Wait until the connector has said of every table that it is read, asking again when it keeps silent.

    A connector that outlives the session in which it reads tables (`Kind.outlives_session`) cannot read until it is restarted:
    so it is, once.

    Raises RefusalError: when it says that it cannot read a table, comes to no end, or somebody has stopped or deleted it;
    ServiceError: when it fails, and fails again after a restart.
    """
    return _SnapshotTalk(work, connector, start, ask).follow()


class _SnapshotTalk:
    """What the connector has said of the tables that it reads, when it spoke last, and when anybody was told something."""

    def __init__(self, work: OnboardingWork, connector: str, start: dict[str, int], ask: Callable[[], None] | None) -> None:
        self._work, self._connector, self._ask = work, connector, ask
        self._notifications, self._open = Notifications(work, start), {".".join(t.id) for t in work.tables}
        self._rows: dict[str, int] = {}
        self._reader, self._asked_behind, self._is_passed = "", 0, ask is None
        self._mendable = ask is not None and work.kind.outlives_session
        self._heard = self._told = time.monotonic()

    def follow(self) -> Facts:
        """Until no table is open."""
        began = time.monotonic()
        self._ask_now()
        while self._open:
            self._hear()
            self._look()
            if self._open and time.monotonic() - self._told >= _SILENCE_SECONDS:
                self._break_silence()
            if time.monotonic() - began > _DEADLINE_SECONDS:
                left = ", ".join(sorted(self._open))
                raise RefusalError(f"no end of the snapshot of {left}; {self._work.resume}")
            _refuse_halted(self._work, self._connector)
            time.sleep(_POLL_SECONDS)
        return {"seconds": round(time.monotonic() - began, 3), "rows_scanned": self._rows}

    def _ask_now(self) -> None:
        if self._ask is not None:
            self._reader, self._asked_behind = self._work.kind.reader(self._work), self._work.kind.log_end(self._work)
            self._ask()
            self._is_passed = False
        self._heard = self._told = time.monotonic()

    def _hear(self) -> None:
        messages = [*self._notifications.new()]
        if self._mendable and any(message.data.get("status") == _NOT_READ for message in messages):
            self._mendable = False
            closed = "perhaps in a session that the server has closed"
            self._work.say(f"{self._connector} could not read ({_NOT_READ}), {closed}: restarted")
            self._work.core_connect.restart(self._connector)
            self._work.core_connect.wait_running(self._connector)
            for _ in self._notifications.new():
                pass  # what the task of before has said is no answer to what is asked now
            self._ask_now()
            return
        for message in messages:
            self._heard = self._told = time.monotonic()
            _progress(self._work, message, self._open, self._rows)

    def _look(self) -> None:
        """Take a reader that meets the signal in the log for the one that was asked.

        Debezium's PostgreSQL connector reads its slot by two sessions at each start: the first only finds its place in the log,
        and where nothing else is written, the signal itself ends it.
        """
        if not self._is_passed:
            now = self._work.kind.reader(self._work)
            self._is_passed = not self._work.kind.reads_from_before(self._work, self._asked_behind)
            self._reader = self._reader if self._is_passed else now

    def _break_silence(self) -> None:
        """Ask a connector that was started since; of any other say that it is busy."""
        self._told = time.monotonic()
        if self._ask is not None and self._work.kind.reader(self._work) not in ("", self._reader):
            heard = self._heard
            self._ask_now()
            self._heard = heard
        else:
            silent = f"no word from {self._connector} for {self._told - self._heard:.0f} s"
            self._work.say(f"{silent}: it is busy, or waits for a lock on a table")


def _progress(work: OnboardingWork, message: Notification, open_tables: set[str], rows: dict[str, int]) -> None:
    """Take note of one notification. Raises RefusalError: when Debezium says that it could not read a table."""
    name = message.table
    if name in open_tables:
        status = message.data.get("status", "")
        if status not in FINE:
            raise RefusalError(
                f"the snapshot of {name} ended with {status}; the connector's log says why; mend it, then {work.resume}"
                f"{work.or_rollback}"
            )
        open_tables.discard(name)
        rows[name] = message.rows
        # MongoDB's connector does not tell how many a first snapshot has read.
        count = quantity(rows[name], "row") if message.tells_rows else "its rows are"
        work.say(f"{name}: {count} read")
    elif message.type == "IN_PROGRESS":
        current = message.data.get("current_collection_in_progress", "")
        key = message.data.get("last_processed_key")
        # Only an incremental snapshot goes by keys.
        work.say(f"{current}: read up to key {key} of {message.data.get('maximum_key')}" if key else f"{current}: is being read")


def _refuse_halted(work: OnboardingWork, connector: str) -> None:
    status = work.core_connect.status(connector)
    if status is None:
        raise RefusalError(
            f"connector {connector} does not exist any more; cdc apply {work.after.name}, then {work.resume}{work.or_rollback}"
        )
    if status.state in HELD:
        raise RefusalError(
            f"connector {connector} is {status.state}; cdc resume {connector}, then {work.resume}{work.or_rollback}"
        )
    if status.failed:
        work.core_connect.wait_running(connector)
