"""Waits until what the source had committed has reached the lake: bronze, silver, and where declared history and backup;
tells which versions are complete then, and else why tables are behind, as Dagster knows it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from cdc_assets.capture.connectors.declared_connectors import tables_in_list
from cdc_assets.capture.log_position import CaughtUpTimeoutError, LogPosition
from cdc_assets.capture.named_log_position import carry_named, carry_or_tell
from cdc_assets.clients.dagster_answers import DagsterAnswers
from cdc_assets.clients.delta_log import bronze_committed, silver_committed, silver_positions, silver_state
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof.capture_flow import Unheard, rows_without_records, still_unheard
from cdc_assets.proof.chain_verdicts import FAILED, check_verdicts
from cdc_assets.registry import names
from cdc_assets.registry.errors import FailuresError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.names import LAYERS, asset_path
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.table.commit_metadata import Committed, CommittedTopic

if TYPE_CHECKING:
    from cdc_assets.clients.kafka import TopicState as KafkaTopic
    from cdc_assets.clients.platform import Platform

_FIRST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 0.5, 2.0
# A refused table is behind from the first look on; a sound one is for the seconds of a run, and is not asked for again at once.
_REFUSALS_SECONDS = 10.0
_SOURCES_AT_A_TIME = 8


@dataclass(frozen=True)
class Behind:
    """A table that has not reached the position yet, and the layer that is behind."""

    source: str
    table: str
    layer: str


Refusals: TypeAlias = Callable[["Chain[BaseSource]", Sequence[Table]], Mapping[TableId, str]]
"""Of tables of a source those that no later run can fold, and why."""


@dataclass(frozen=True)
class Awaited:
    """What is waited for besides silver and histories: the `backup`. `named`: a position without a name is an error; else it is
    told, and what the topics hold is waited for (named_log_position). `listed`: of tables that have rows and no record, those
    alone that the running connector lists; `events_flow` tells the others. `refusals`: asked for tables that silver is behind
    with; nobody waits for one that stands."""

    backup: bool = False
    named: bool = False
    listed: bool = False
    refusals: Refusals = lambda *_: {}


SILVER = Awaited()


def wait_caught_up(
    platform: Platform,
    sources: tuple[BaseSource, ...],
    *,
    timeout: float,
    awaited: Awaited = SILVER,
    progress: Callable[[tuple[Behind, ...]], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, LogPosition]:
    """Block until everything that the sources had committed before the call is in silver, in histories (and in the backup).

    `progress` is told after each look which tables are behind, `say` what stands in the way, and that more than once. A table
    that stands is told at once, and the others are waited for. Sources are asked side by side.

    Raises:
        RefusalError: a position was to be named, and has no name.
        CaughtUpTimeoutError: naming the tables that are behind, and in which layer.
        FailuresError: all others have it; naming the tables that stand.
    """
    until, pause = time.monotonic() + timeout, _FIRST_POLL_SECONDS
    unheard = {source.name: _silent_tables(Chain(platform, source), listed=awaited.listed) for source in sources}
    standing = _Standing(platform, awaited.refusals, say)
    positions = standing.carry(sources, awaited, until)
    carried = [source for source in sources if source.name in positions]
    waiting: set[tuple[str, str]] | None = None
    while True:
        behind = [late for source in carried for late in _behind_source(Chain(platform, source), unheard, say)]
        for source in carried:
            behind += behind_position(Chain(platform, source), positions[source.name], with_backup=awaited.backup, only=waiting)
        behind = standing.without(carried, behind)
        # A position that was reached stays reached.
        waiting = {(late.source, late.table) for late in behind}
        progress(tuple(behind))
        if not behind:
            standing.end()
            return positions
        if time.monotonic() > until:
            late_tables = ", ".join(f"{late.layer}/{late.source}/{late.table}" for late in behind)
            raise CaughtUpTimeoutError(f"not caught up within {timeout:.0f} s: {late_tables}; ./cdc status shows where it stands")
        time.sleep(pause)
        pause = min(_LONGEST_POLL_SECONDS, 1.1 * pause)


class _Standing:
    """Tables that nothing carries any more: by (source, table) why. Each is told once, when it is found."""

    def __init__(self, platform: Platform, refusals: Refusals, say: Callable[[str], None]) -> None:
        self._platform, self._refusals, self._say = platform, refusals, say
        self._reasons: dict[tuple[str, str], str] = {}
        self._next = 0.0

    def carry(self, sources: Sequence[BaseSource], awaited: Awaited, until: float) -> dict[str, LogPosition]:
        """Of each source the position to wait for. What does not come into the lake stands: a topic's table, or a whole source.

        Raises:
            CaughtUpTimeoutError: of no source anything comes; the first one's.
        """
        carry = carry_named if awaited.named else carry_or_tell

        def one(source: BaseSource) -> LogPosition | CaughtUpTimeoutError:
            try:
                return carry(Chain(self._platform, source), deadline=max(1.0, until - time.monotonic()), say=self._say)
            except CaughtUpTimeoutError as error:
                if error.reached is None:
                    return error
                self._note(source, [t for t in source.tables if names.topic(source, t) in error.topics], str(error))
                return error.reached

        with ThreadPoolExecutor(max(1, min(_SOURCES_AT_A_TIME, len(sources))), thread_name_prefix="wait") as pool:
            positions = dict(zip([source.name for source in sources], pool.map(one, sources), strict=True))
        errors = {name: carried for name, carried in positions.items() if isinstance(carried, CaughtUpTimeoutError)}
        if errors and len(errors) == len(positions):
            raise next(iter(errors.values()))
        for source in sources:
            if source.name in errors:
                self._note(source, source.tables, str(errors[source.name]))
        return {name: carried for name, carried in positions.items() if isinstance(carried, LogPosition)}

    def without(self, sources: Sequence[BaseSource], behind: Sequence[Behind]) -> list[Behind]:
        """Those that may still come. A source is asked now and then for tables that silver is behind with."""
        folded = [late for late in behind if late.layer in ("silver", "history")]
        if folded and time.monotonic() > self._next:
            for source in sources:
                late = {behind_table.table for behind_table in folded if behind_table.source == source.name}
                tables = [table for table in source.tables if names.table_name(table) in late]
                refusals = self._refusals(Chain(self._platform, source), tables) if tables else {}
                for table in tables:
                    if table.id in refusals:
                        self._note(source, [table], refusals[table.id])
            self._next = time.monotonic() + _REFUSALS_SECONDS
        return [late for late in behind if (late.source, late.table) not in self._reasons]

    def end(self) -> None:
        """All others are there. Raises FailuresError: some stand."""
        if self._reasons:
            raise FailuresError.of_tables("silver", {f"{s}/{t}": reason for (s, t), reason in self._reasons.items()})

    def _note(self, source: BaseSource, tables: Sequence[Table], reason: str) -> None:
        new = [names.table_name(table) for table in tables if (source.name, names.table_name(table)) not in self._reasons]
        self._reasons |= {(source.name, short): reason for short in new}
        if new:
            what = new[0] if len(new) == 1 else quantity(len(new), "table")
            self._say(f"{source.name}/{what}: nobody waits for it any more: {reason}")


def _silent_tables(chain: Chain[BaseSource], *, listed: bool) -> tuple[Unheard, ...]:
    database = chain.platform.database_if_any(chain.source)
    if database is None:
        # A source of topics may have no core cluster at all.
        return ()
    silent = rows_without_records(chain.source, database, _topics(chain, chain.source.tables))
    running = (
        chain.platform.core_connect(chain.source.cluster).config(names.connector_name(chain.source))
        if listed and silent
        else None
    )
    if running is None:
        return silent
    there = tables_in_list(chain.source, running)
    return tuple(unheard_table for unheard_table in silent if unheard_table.table.name in there)


def _topics(chain: Chain[BaseSource], tables: Iterable[Table]) -> dict[str, KafkaTopic]:
    return chain.platform.core_kafka(chain.source.cluster).states([names.topic(chain.source, table) for table in tables])


def _behind_source(chain: Chain[BaseSource], unheard: dict[str, tuple[Unheard, ...]], say: Callable[[str], None]) -> list[Behind]:
    """Tables with rows of which no record has come; one that has been heard of counts no more."""
    if not unheard[chain.source.name]:
        return []
    unheard[chain.source.name] = still_unheard(
        chain.source,
        unheard[chain.source.name],
        _topics(chain, [unheard_table.table for unheard_table in unheard[chain.source.name]]),
    )
    for unheard_table in unheard[chain.source.name]:
        say(f"{chain.source.name}: {unheard_table.table.name} has {unheard_table.message(chain.source)}")
    return [
        Behind(chain.source.name, names.table_name(unheard_table.table), "topic") for unheard_table in unheard[chain.source.name]
    ]


def behind_position(
    chain: Chain[BaseSource],
    position: LogPosition,
    *,
    with_backup: bool,
    only: Collection[tuple[str, str]] | None = None,
) -> list[Behind]:
    """The tables of the source that have not reached the position; `only`: of these (source, table)."""
    committed = bronze_committed(chain.bronze_path)
    late = []
    for table in chain.source.tables:
        if only is not None and (chain.source.name, names.table_name(table)) not in only:
            continue
        layer = _layer_behind(chain, table, position, committed, with_backup=with_backup)
        if layer:
            late.append(Behind(chain.source.name, names.table_name(table), layer))
    return late


def _layer_behind(
    chain: Chain[BaseSource],
    table: Table,
    position: LogPosition,
    committed: Committed | None,
    *,
    with_backup: bool,
) -> str | None:
    topic = names.lake_topic(chain.source, table)
    target = position.offsets.get(topic, {})
    bronze = committed.topics.get(topic) if committed else None
    positions = bronze.positions if bronze else {}
    if any(positions.get(partition, 0) < end for partition, end in target.items()):
        return "bronze"
    if not _has_folded(chain.silver_path(table), topic, target, bronze):
        return "silver"
    if table.history == "scd2" and not _has_folded(chain.history_path(table), topic, target, bronze):
        return "history"
    if with_backup and chain.source.backup is not None:
        from cdc_assets.backup.backup_position import backup_position

        copied = backup_position(
            chain.platform.store(chain.source.backup.store), source=chain.source.name, table=names.table_name(table)
        )
        if bronze is not None and bronze.records_ahead_of(copied) > 0:
            return "backup"
    return None


def _has_folded(path: str, topic: str, target: Mapping[int, int], bronze: CommittedTopic | None) -> bool:
    """Whether the table has folded the topic up to the target, or all records that bronze holds of it."""
    folded = silver_committed(path)
    state, up_to = (folded.topics.get(topic) if folded else None), silver_positions(folded, topic)
    if bronze is None or not bronze.records_ahead_of(None):
        return True
    comparable = state is None or state.epoch == bronze.epoch
    if comparable and all(up_to.get(partition, 0) >= end for partition, end in target.items()):
        return True
    return bronze.records_ahead_of(state) <= 0


@dataclass(frozen=True)
class CompleteVersions:
    """The Delta versions of a source's silver tables that hold everything committed before `position`.

    They may hold later changes as well, each table its own: all of one transaction is there when it was committed before.
    Of a table with a history its place, version and rows are there as well, as `history`.
    """

    source: str
    position: str
    tables: dict[str, dict[str, Any]]

    def to_json(self) -> dict[str, Any]:
        """As `cdc wait -o json` prints it."""
        return {"position": self.position, "tables": self.tables}


def complete_versions(lake: str, source: BaseSource, position: LogPosition) -> CompleteVersions:
    """Of a source that has been waited for (`wait_caught_up`); tables that nothing was ever captured of are left out."""
    versions: dict[str, dict[str, Any]] = {}
    for table in source.tables:
        newest = _newest(names.silver_path(lake, source, table))
        if newest is None:
            continue
        if table.history == "scd2":
            newest["history"] = _newest(names.history_path(lake, source, table))
        versions[names.table_name(table)] = newest
    return CompleteVersions(source.name, position.lsn, versions)


def _newest(path: str) -> dict[str, Any] | None:
    state = silver_state(path)
    return None if state is None else {"path": path, "version": state.version, "rows": state.rows}


_RUNS = 24
_TABLES_TOLD = 5
_CARRIED_BY = {"cdc/tables": frozenset(LAYERS) - {"backup"} | {"history"}, "cdc/backups": frozenset({"backup"})}
"""The tag by which a sensor's run names its tables, and the layers that it carries."""
_UNDER_WAY = ("QUEUED", "NOT_STARTED", "STARTING", "STARTED", "CANCELING")
_STATE = """
instance { daemonHealth { allDaemonStatuses { daemonType required healthy } } }
repositoriesOrError { ... on RepositoryConnection { nodes { sensors { name sensorState { status
  ticks(limit: 1) { skipReason } } } } } }
"""
_FAILURE = """query($run: ID!) { logsForRun(runId: $run, limit: 1000) { ... on EventConnection { events { __typename
  ... on ExecutionStepFailureEvent { stepKey error { message causes { message } } }
  ... on RunFailureEvent { error { message causes { message } } } } } } }"""
Answer = Mapping[str, Any]


def wait_reasons(dagster: DagsterAnswers, behind: Sequence[Behind]) -> list[str]:
    """What stands in the way of these tables, the reason that all share first; empty where everything is on its way.

    One question to the webserver for all tables, and one more for each run that has failed.

    Raises:
        ServiceError: nothing can be asked.
    """
    sources = sorted({late.source for late in behind})
    answer = dagster.ask(_question(sources, behind))
    reasons = list(_of_daemon(answer))
    reasons += _of_sensors(answer, sources)
    loaded = {tuple(node["assetKey"]["path"]) for node in answer["assetNodes"]}
    missing = ["/".join(_asset(late)) for late in behind if tuple(_asset(late)) not in loaded]
    reasons += [
        f"Dagster has no asset {name} loaded: reload its code location (./cdc onboard does, and ./cdc up)" for name in missing
    ]
    for number, source in enumerate(sources):
        for tag, layers in _CARRIED_BY.items():
            tables = [late.table for late in behind if late.source == source and late.layer in layers]
            reasons += _of_runs(dagster, answer[f"r{number}"]["results"], tag, tables)
    return [*reasons, *_of_checks(dagster, behind)]


def _asset(late: Behind) -> list[str]:
    return [*asset_path("silver" if late.layer == "history" else late.layer, late.source, late.table)]


def _question(sources: Sequence[str], behind: Sequence[Behind]) -> str:
    keys = ", ".join(f"{{path: {json.dumps(_asset(late))}}}" for late in behind)
    runs = " ".join(
        f'r{number}: runsOrError(filter: {{tags: [{{key: "cdc/source", value: {json.dumps(source)}}}]}}, limit: {_RUNS}) '
        "{ ... on Runs { results { runId status tags { key value } } } }"
        for number, source in enumerate(sources)
    )
    return f"{{ {_STATE} assetNodes(assetKeys: [{keys}]) {{ assetKey {{ path }} }} {runs} }}"


def _of_daemon(answer: Answer) -> Iterable[str]:
    daemons = answer["instance"]["daemonHealth"]["allDaemonStatuses"]
    silent = [daemon["daemonType"] for daemon in daemons if daemon["required"] and not daemon["healthy"]]
    if silent:
        yield f"dagster-daemon has no heartbeat ({', '.join(silent)}), nothing is asked for: ./cdc logs dagster-daemon"


def _of_sensors(answer: Answer, sources: Sequence[str]) -> Iterable[str]:
    states = {
        sensor["name"]: sensor["sensorState"]
        for repository in answer["repositoriesOrError"].get("nodes", ())
        for sensor in repository["sensors"]
    }
    for source in sources:
        name = f"offsets_{source}"
        if (state := states.get(name)) is None:
            yield f"Dagster has no sensor {name} loaded: it does not know the source yet; reload its code location"
        elif state["status"] != "RUNNING":
            yield f"sensor {name} is {state['status']}: switch it on in Dagster under Automation"
        else:
            # A pause after failures, a topic that is not there: its own words.
            yield from (f"sensor {name} asks for no run: {tick['skipReason']}" for tick in state["ticks"] if tick["skipReason"])
        # Only a source in continuous mode has one.
        keeper = states.get(f"keep_continuous_{source}", {"status": "RUNNING"})["status"]
        if keeper != "RUNNING":
            yield f"sensor keep_continuous_{source} is {keeper}: switch it on in Dagster under Automation"


def _of_runs(dagster: DagsterAnswers, runs: Sequence[Answer], of_tables: str, tables: Sequence[str]) -> Iterable[str]:
    """Of each run that failed last for one of the tables, which its tag names: its reason, once."""
    tables_of: dict[str, list[str]] = {}
    for table in tables:
        for run in runs:
            tags = {tag["key"]: tag["value"] for tag in run["tags"]}
            if table not in tags.get(of_tables, "").split(",") or run["status"] in _UNDER_WAY:
                continue
            if run["status"] == "FAILURE":
                tables_of.setdefault(run["runId"], []).append(table)
            break
    for run_id, carried in tables_of.items():
        yield f"the last run of {', '.join(carried)} failed: {_failure(dagster, run_id)}; {dagster.url}/runs/{run_id}"


def _failure(dagster: DagsterAnswers, run_id: str) -> str:
    events = dagster.ask(_FAILURE, run=run_id)["logsForRun"].get("events", ())
    failures = [event for event in events if event.get("error")]
    steps = [event for event in failures if event["__typename"] == "ExecutionStepFailureEvent"] or failures
    if not steps:
        return "its page says why"
    error = steps[0]["error"]
    root = error["causes"][-1] if error["causes"] else error
    # One that tells of several tables has a line for each.
    lines = [line.strip() for line in root["message"].strip().splitlines()]
    reason = " ".join(lines[: 1 + _TABLES_TOLD] if lines and lines[0].endswith(":") else lines[:1])
    return f"{steps[0].get('stepKey', 'the run')}: {reason or 'no reason given'}"


def _of_checks(dagster: DagsterAnswers, behind: Sequence[Behind]) -> Iterable[str]:
    """A red check of a layer before blocks the layer that is behind."""
    links = [layer for layer in LAYERS if layer not in ("connector", "ledger")]
    late = {asset_path(layer, behind_table.source, behind_table.table) for behind_table in behind for layer in links}
    for check in check_verdicts(dagster):
        if check.state == FAILED and check.asset in late:
            yield f"{check.place} is red: {check.description}"
