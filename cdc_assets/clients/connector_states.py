"""What Connect says about connectors, as values, and which config values may be shown; no HTTP here.

The states: RUNNING, FAILED, PAUSED, STOPPED, UNASSIGNED, RESTARTING. Connect returns configs in clear text (KAFKA-5117), and
quotes values in its errors. A value is a secret when its ConfigDef type is PASSWORD, or when its key says so (what a ConfigDef
does not know: converters, client overrides, JAAS). A reference such as `${dir:/secrets:shop}` names a secret and may be shown;
a value that only contains one may hold anything beside it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.references import is_reference, tells_secret
from spark.errors import quantity

HIDDEN = "[hidden]"
# scheme://user:password@host, and jdbc:oracle:thin:user/password@host
_USER_INFO = re.compile(r"(?<=://)[^/\s@]*:[^/\s]*@|(?<=:thin:)[^/\s@]*/[^\s@]*@")
# jdbc:…?password=…, JAAS options, key=value lists
_ASSIGNED = re.compile(r"(?i)\b(\w*(?:password|passwd|secret|token))(\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s;&,\"']+)")


def is_secret(key: str, password_keys: Collection[str] = ()) -> bool:
    """Whether the value of this config key may be a secret."""
    return key in password_keys or tells_secret(key)


def mask_value(key: str, value: str, password_keys: Collection[str] = ()) -> str:
    """The value, or `[hidden]` where it may be a secret."""
    if is_reference(value):
        return value
    return HIDDEN if is_secret(key, password_keys) else mask_text(value)


def mask_config(config: Mapping[str, str], password_keys: Collection[str] = ()) -> dict[str, str]:
    """A whole config, fit to be printed."""
    return {key: mask_value(key, str(value), password_keys) for key, value in sorted(config.items())}


def mask_logins(text: str) -> str:
    """A text without the logins of addresses in it."""
    return _USER_INFO.sub(f"{HIDDEN}@", text)


def mask_text(text: str, config: Mapping[str, str] | None = None, password_keys: Collection[str] = ()) -> str:
    """A message without the secret values of `config`, and without what looks like a password by itself."""
    for key, value in sorted((config or {}).items(), key=lambda item: -len(str(item[1]))):
        if value and is_secret(key, password_keys) and not is_reference(str(value)):
            text = text.replace(str(value), HIDDEN)
    shown = mask_logins(text)
    return _ASSIGNED.sub(lambda found: found[0] if is_reference(found[3]) else f"{found[1]}{found[2]}{HIDDEN}", shown)


_CAUSED = "Caused by: "
_CAUSE_LENGTH = 500
# What Debezium says of a statement that its grammar does not have (the statement as the server logged it, over several lines),
# of one that does not go with its model (a part of it), of a row that has more or fewer columns than its model, and of a row
# whose table it has no model of: DROP TABLE was in the binlog, and CREATE TABLE was not.
_UNPARSED = re.compile(r"couldn't be parsed\. [^\n]*? with the statement '(.*?)'\n(.*?)\n", re.DOTALL)
_UNFITTING = re.compile(r"ParsingException: ([^\n]*?)\. Query: (.*?)\n(?:\t| )*at ", re.DOTALL)
_MISSHAPEN = re.compile(r"Error processing row in (.+?), (internal schema size \d+, but row size \d+)")
# Kafka's producer refuses it before the broker sees it; the topic stands in the worker's log alone.
_TOO_LARGE = re.compile(r"RecordTooLargeException: The message is (\d+) bytes when serialized which is larger than (\d+)")
_SENDS = re.compile(r"sends (\d+) at most \(max\.request\.size\)")
_UNKNOWN = re.compile(r"Encountered change event for table (.+?) whose schema isn't known to this connector")
# What the server refuses a reader (1236, ER_SOURCE_FATAL_ERROR_READING_BINLOG), or a binlog's connector before it asks.
_LOG_GONE = re.compile(
    r"Error code: 1236\b|but this is no longer available on the server.*?\bconnector\.(?:binlog|mysql|mariadb)\.", re.DOTALL
)
# MariaDB's types 140 and 141, of columns with COMPRESSED, which the client (0.40) has no name for.
_UNNAMED = re.compile(r"ColumnType\.byCode\(int\)\" is null")
_NO_TASK = "no task has said anything yet"
# Seen with Debezium 3.7.0: a lost slot is asked for 900 times, every 2 s (PostgresConnection), before its task fails.
_WHY = {
    "PostgresConnector": (
        ": a task has a state only once its own start is over, and PostgreSQL's waits there up to half an hour for a slot that "
        "was invalidated, or for transactions that were open before its slot is made: cdc preflight names it"
    ),
    "MirrorSourceConnector": ": MirrorMaker makes one once a topic that it copies is on the core cluster: cdc get topics",
}
_WORST_FIRST = ("FAILED", "UNASSIGNED", "RESTARTING", "STOPPED", "PAUSED", "RUNNING")


def severity(state: str) -> int:
    """A sort key: what has failed comes first, behind what nobody knows."""
    return _WORST_FIRST.index(state) if state in _WORST_FIRST else -1


@dataclass(frozen=True)
class Obstacle:
    """What a connector of a binlog cannot read: a statement, as a whole or a part of it, or a table's rows. `why`: its words.

    `table`: with or without its database, as Debezium tells it. Neither it nor a statement: rows of a table that is not told.
    """

    why: str
    statement: str = ""
    is_part: bool = False
    table: str = ""

    @classmethod
    def of(cls, trace: str) -> Obstacle | None:
        """What the trace of a failure is about; None: something else."""
        if match := _UNPARSED.search(trace):
            return cls(f"cannot parse it: {match[2].strip()}", statement=match[1])
        if match := _UNFITTING.search(trace):
            return cls(match[1], statement=match[2], is_part=True)
        if match := _MISSHAPEN.search(trace):
            return cls(match[2], table=match[1])
        if match := _UNKNOWN.search(trace):
            return cls("it has none of that table", table=match[1])
        if _UNNAMED.search(trace):
            return cls("its client does not know their type")
        return None

    def is_about(self, table: TableId) -> bool:
        """Whether it cannot read the rows of this table."""
        return self.table in (table.table, f"{table.schema}.{table.table}")

    def text(self, connector: str, place: str) -> str:
        """For people, with the command that goes past it; `place`: up to where it has read, empty where that is not known."""
        mend, behind = f"cdc repair model {connector}", f" (behind {place})" if place else ""
        if self.table:
            return f"rows of table {self.table} do not fit Debezium's model{behind}: {self.why}. Mend: {mend}"
        if not self.statement:
            return (
                f"Debezium stands at rows of a table with COMPRESSED columns, captured or not{behind}: {self.why}. cdc preflight "
                f"names the columns, and the statement that ends it; that first. Mend: {mend}, which goes past those rows"
            )
        shown = " ".join(self.statement.split())[:_CAUSE_LENGTH]
        return f"Debezium stands at a statement{behind}: {shown}; {self.why}. Mend: {mend}, which goes past it"


@dataclass(frozen=True)
class TaskStatus:
    """One task: its number, state, the worker it is on, and what its failure says (empty: none)."""

    id: int
    state: str
    worker: str
    trace: str = ""
    obstacle: Obstacle | None = None


@dataclass(frozen=True)
class ConnectorStatus:
    """States of a connector and of each of its tasks; `trace` holds what each failure says, or why there may be no task yet."""

    name: str
    state: str
    tasks: tuple[str, ...]
    trace: tuple[str, ...]
    worker: str = ""
    details: tuple[TaskStatus, ...] = ()

    @classmethod
    def parse(cls, name: str, answer: Mapping[str, Any], connector_class: str = "", place: str = "") -> ConnectorStatus:
        """From the answer of `GET /connectors/<name>/status`; the class says what it may be waiting for.

        `place`: up to where in the binlog it has read, for what it says of an obstacle.
        """
        connector = answer["connector"]
        details = tuple(
            TaskStatus(
                id=int(task.get("id", at)),
                state=task["state"],
                worker=task.get("worker_id", ""),
                trace=_failure(task, name, place),
                obstacle=_obstacle(task),
            )
            for at, task in enumerate(answer["tasks"])
        )
        trace = tuple(line for line in (_failure(connector, name, place), *(task.trace for task in details)) if line)
        states = tuple(task.state for task in details)
        if connector["state"] == "RUNNING" and not details:
            trace = (_NO_TASK + _WHY.get(connector_class.rsplit(".", 1)[-1], ""),)
        return cls(name, connector["state"], states, trace, connector.get("worker_id", ""), details)

    @property
    def running(self) -> bool:
        """The connector and every task, and at least one task (a connector is RUNNING while its task is FAILED)."""
        return self.state == "RUNNING" and bool(self.tasks) and all(task == "RUNNING" for task in self.tasks)

    @property
    def idle(self) -> bool:
        """It runs, and has no task: it starts, or has nothing to do."""
        return self.state == "RUNNING" and not self.tasks

    @property
    def worst(self) -> str:
        """The worst state of the connector and its tasks; UNASSIGNED where it runs and has no task."""
        states = (self.state, *self.tasks)
        return "UNASSIGNED" if states == ("RUNNING",) else min(states, key=severity)

    @property
    def failed(self) -> bool:
        """The connector or any task is FAILED."""
        return "FAILED" in (self.state, *self.tasks)

    @property
    def obstacle(self) -> Obstacle | None:
        """What a failed task cannot read."""
        return next((task.obstacle for task in self.details if task.state == "FAILED" and task.obstacle), None)

    @property
    def meets_it_again(self) -> bool:
        """It failed by a record that is too large to be sent: a restart alone ends there again."""
        return self.sends_at_most is not None

    @property
    def sends_at_most(self) -> int | None:
        """Bytes of one record, where a task has failed by a larger one."""
        return next((int(match[1]) for line in self.trace if (match := _SENDS.search(line))), None)

    @property
    def stopped(self) -> bool:
        """STOPPED with no task left: only then may its offsets be changed (KIP-875)."""
        return self.state == "STOPPED" and not self.tasks


@dataclass(frozen=True)
class ConnectorOverview:
    """A connector of a cluster: its kind (source or sink), config as Connect holds it, and states (None: not known yet)."""

    name: str
    type: str
    config: Mapping[str, str]
    status: ConnectorStatus | None


@dataclass(frozen=True)
class Plugin:
    """A class that the worker can run: its short and full name, version, and type (source, sink, converter, …)."""

    class_name: str
    version: str
    type: str


@dataclass(frozen=True)
class SourceOffset:
    """One committed offset of a connector, in the connector's own words; `offset` None: forgotten."""

    partition: Mapping[str, Any]
    offset: Mapping[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        """As Connect's REST has it."""
        return {"partition": dict(self.partition), "offset": None if self.offset is None else dict(self.offset)}


def _obstacle(part: Mapping[str, Any]) -> Obstacle | None:
    return Obstacle.of(str(part.get("trace") or ""))


def _failure(part: Mapping[str, Any], connector: str, place: str) -> str:
    """What the connector cannot read; else the first line of a trace, and its last cause.

    Debezium's first line often only says that something has happened.
    """
    if obstacle := _obstacle(part):
        return mask_text(obstacle.text(connector, place))
    if match := _TOO_LARGE.search(str(part.get("trace") or "")):
        return (
            f"a record has {quantity(int(match[1]), 'byte')}, and its producer sends {match[2]} at most (max.request.size): "
            "a restart meets it again. The worker's log names its topic (failed to send record to); let it send more, or "
            "a mirror go past it (cdc repair mirror TOPIC): docs/how-to/repair.md#a-row-that-is-too-large-for-kafka"
        )
    trace = str(part.get("trace") or "")
    lines = trace.splitlines() or [""]
    causes = [line.removeprefix(_CAUSED) for line in lines if line.startswith(_CAUSED)]
    cause = f"; caused by {causes[-1][:_CAUSE_LENGTH]}" if causes and causes[-1] not in lines[0] else ""
    message = mask_text(lines[0] + cause)
    if not _LOG_GONE.search(trace):
        return message
    return f"{message.rstrip('.')}. The server's log does not go on where it was read. Mend: cdc repair source {connector}"
