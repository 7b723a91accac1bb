"""Gets a connector of a binlog past what it cannot read, and gives it the server's definitions of the tables that it misread.

1. The statement that it stands at is passed over, it alone (connectors.passed_statement). A table whose rows do not fit
   Debezium's model is left out meanwhile. Rows of a table with COMPRESSED columns are passed over as well, once no table has any
   more; a captured table of which there are such rows is left out.
2. When the connector has read all that is in the binlog, the models of the tables are compared with the server's catalogue.
3. A table whose model differs, or that was left out, is read again: the connector gets its definition from the server, at the
   place where it goes on (onboarding.kinds.binlog), and bronze goes on in a new epoch, which holds the whole table.

Silver folds nothing of such a table until then (preflight.table_models). Nothing is written into the source but signals. Each
step looks at what is there, so a command that was killed is given again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from cdc_assets import names
from cdc_assets.bronze.reload import append_rest, plan_reloads, reload_bronze
from cdc_assets.connectors.apply import HELD
from cdc_assets.connectors.capture import tables_in_list
from cdc_assets.connectors.passed_statement import is_passing, passing_config, without_passing
from cdc_assets.errors import CaughtUpTimeoutError, ConnectError, ConnectorFailedError
from cdc_assets.onboarding import run as onboarding
from cdc_assets.onboarding.work import onboarding_kind
from cdc_assets.preflight import binlog_gaps
from cdc_assets.preflight.table_models import tables_with_models, wrong_models
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import CapturedSource
from cdc_assets.resources.databases.binlog_capture import BinlogCapture
from cdc_assets.volumetry.binlog_progress import await_binlog, connector_position
from cdc_assets.volumetry.named_place import carry_named

if TYPE_CHECKING:
    from cdc_assets.resources.connect.states import Obstacle
    from cdc_assets.resources.platform import Platform

Say = Callable[[str], None]
_DEADLINE_SECONDS = 3600.0
_LOOK_SECONDS = 10.0
_MODEL_SECONDS = 60.0


@dataclass(frozen=True)
class PassedStatement:
    """A statement that the connector does not read, and its place in the binlog; empty: it was not found there."""

    statement: str
    place: str


@dataclass
class ModelRepair:
    """What was done, or would be: statements passed over, tables read again, and by topic the epoch in which bronze goes on."""

    passed: list[PassedStatement] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)
    unreadable: bool = False
    """Whether the client passes over rows that it cannot read."""


def plan_repair(platform: Platform, source: CapturedSource, wanted: Sequence[Table]) -> ModelRepair:
    """What the connector stands at, and the tables whose models are wrong as far as it has read; nothing is changed."""
    status = platform.core_connect(source.cluster).status(names.connector_name(source))
    obstacle = status.obstacle if status else None
    found = ModelRepair()
    if obstacle is not None and obstacle.statement:
        found.passed.append(_with_place(platform, source, obstacle))
    elif obstacle is None:
        found.tables = _to_read_again(platform, source, {table.id for table in wanted})
    else:
        found.tables = [table for table in source.tables if obstacle.is_about(table.id)]
    return found


def repair_models(platform: Platform, source: CapturedSource, wanted: Sequence[Table], say: Say) -> ModelRepair:
    """The connector runs behind what it stood at, and reads each table by the server's columns.

    `wanted`: tables that are read again in any case.

    Raises:
        ConnectorFailedError: it has failed for another reason.
        OnboardingError: a table cannot be read again; says what it lacks.
        CdcAssetsError: from a step of the reading, which `cdc onboard SOURCE --resume` goes on with.
    """
    repair, connect, name = ModelRepair(), platform.core_connect(source.cluster), names.connector_name(source)
    status = connect.status(name)
    if status is None or status.state in HELD:
        seen = "has no status" if status is None else f"is {status.state}"
        raise ConnectError(f"connector {name} {seen}; cdc resume {name}, then again: cdc repair model {source.name}")
    running = connect.config(name) or {}
    before = without_passing(running)
    left_out = _go_past(platform, source, repair, _tables_off_the_list(platform, source, before), say)
    repair.tables = _to_read_again(platform, source, left_out | {table.id for table in wanted})
    if repair.tables:
        # Asked before another table is left out: without a signal table nothing could be read again.
        onboarding.judge(platform, source.name, [table.name for table in repair.tables], "incremental")
        _empty_topics(platform, source, repair, say)
        plans = [replace(plan, wanted=True) for plan in plan_reloads(platform, source, repair.tables, anew=True)]
        repair.epochs = reload_bronze(platform, source, plans, say)
    elif repair.passed or repair.unreadable or is_passing(running):
        _configure(platform, source, before)
        connect.wait_running(name)
    return repair


def _tables_off_the_list(platform: Platform, source: CapturedSource, running: Mapping[str, str]) -> set[TableId]:
    """The tables that a command that was killed has left out of the connector's list: bronze has read them before."""
    listed = tables_in_list(source, running)
    plans = plan_reloads(platform, source, [table for table in source.tables if table.name not in listed])
    return {plan.table.id for plan in plans if not plan.is_first}


def _empty_topics(platform: Platform, source: CapturedSource, repair: ModelRepair, say: Say) -> None:
    """What was read by a wrong model is in bronze, below the epoch that begins: the connector sends no more of it."""
    connect, name = platform.core_connect(source.cluster), names.connector_name(source)
    ids = {table.id for table in repair.tables}
    passed = [each.statement for each in repair.passed]
    config = without_passing(connect.config(name) or {})
    _configure(platform, source, passing_config(source, config, passed, ids, unreadable=repair.unreadable))
    _go_past(platform, source, repair, ids, say)
    carry_named(platform, source, deadline=_DEADLINE_SECONDS, say=say)
    append_rest(platform, source, repair.tables, say)


def _go_past(platform: Platform, source: CapturedSource, repair: ModelRepair, left_out: set[TableId], say: Say) -> set[TableId]:
    """Until the connector has read what is in the binlog now; the tables that it runs without then."""
    connect, name = platform.core_connect(source.cluster), names.connector_name(source)
    running, until = connect.config(name), time.monotonic() + _DEADLINE_SECONDS
    if running is None:
        raise ConnectError(f"connector {name} does not exist at {connect.url}: cdc apply {source.name} makes it")
    # A command that was killed may have left it so; what it has left out is in `left_out`.
    running = without_passing(running)
    for obstacle in _obstacles(platform, source, until):
        if obstacle.table:
            tables = {table.id for table in source.tables if obstacle.is_about(table.id)} - left_out
            if not tables:
                raise ConnectorFailedError(f"connector {name}: rows of {obstacle.table} do not fit its model ({obstacle.why})")
            say(f"rows of {', '.join(map(str, sorted(tables)))} do not fit Debezium's model: left out, and read again at the end")
            left_out = left_out | tables
        elif not obstacle.statement:
            left_out = left_out | _tables_with_compression(platform, source, repair, obstacle, say)
        else:
            found = _with_place(platform, source, obstacle)
            if found in repair.passed:
                raise ConnectorFailedError(f"connector {name} stands again at {found.place}: {found.statement}: {obstacle.why}")
            say(f"passing over the statement at {found.place or 'an unknown place'}: {' '.join(found.statement.split())}")
            repair.passed.append(found)
        passed = [each.statement for each in repair.passed]
        _configure(platform, source, passing_config(source, running, passed, left_out, unreadable=repair.unreadable))
    return left_out


def _tables_with_compression(
    platform: Platform, source: CapturedSource, repair: ModelRepair, obstacle: Obstacle, say: Say
) -> set[TableId]:
    """The captured tables of which the binlog has rows with COMPRESSED columns, which are passed over from now on.

    Raises:
        ConnectorFailedError: a table has such columns still, or they are passed over already.
    """
    name, database = names.connector_name(source), _database(source)
    with database.connection() as cursor:
        cursor.execute(binlog_gaps.QUERIES["compressed"])
        still = [*binlog_gaps.tables((), (), cursor.fetchall())]
    if still:
        told = "; ".join(f"{found.subject}: {found.mend}" for found in still)
        raise ConnectorFailedError(
            f"connector {name} stops at each row of a table with COMPRESSED columns. End them first: {told}; "
            f"then again: cdc repair model {source.name}"
        )
    if repair.unreadable:
        raise ConnectorFailedError(f"connector {name} stands again at rows that it cannot read: {obstacle.why}")
    since = connector_position(platform.core_connect(source.cluster), name)
    found = database.tables_with_compression([table.id for table in source.tables], since) if since else set[TableId]()
    read = f"; read again at the end: {', '.join(map(str, sorted(found)))}" if found else ", none of them of a captured table"
    say(f"passing over rows with COMPRESSED columns behind {since.text if since else 'an unknown place'}{read}")
    repair.unreadable = True
    return found


def _obstacles(platform: Platform, source: CapturedSource, until: float) -> Iterator[Obstacle]:
    """What the connector meets, one after the other, until it has read what is in the binlog now.

    Raises:
        ConnectorFailedError: it has failed for another reason.
    """
    connect, name, database = platform.core_connect(source.cluster), names.connector_name(source), _database(source)
    while True:
        status = connect.status(name)
        if status is not None and status.failed:
            if status.obstacle is None:
                raise ConnectorFailedError(
                    f"connector {name} has failed: {'; '.join(status.trace)}; mend that, then cdc restart {name}"
                )
            yield status.obstacle
            continue
        try:
            await_binlog(source, f"model-{time.time_ns()}", database, connect, time.monotonic() + _LOOK_SECONDS)
            return
        except CaughtUpTimeoutError:
            if time.monotonic() > until:
                raise


def _configure(platform: Platform, source: CapturedSource, config: dict[str, str]) -> None:
    connect, name = platform.core_connect(source.cluster), names.connector_name(source)
    connect.stop(name)
    connect.put_config(name, config)
    connect.resume(name)


def _with_place(platform: Platform, source: CapturedSource, obstacle: Obstacle) -> PassedStatement:
    """With its place, and whole; of a part that is in no statement of the binlog nothing more is known."""
    stored = connector_position(platform.core_connect(source.cluster), names.connector_name(source))
    found = _database(source).find_statement(obstacle.statement, stored) if stored else None
    if found is None:
        return PassedStatement(obstacle.statement, "")
    place, text = found
    return PassedStatement(text if obstacle.is_part else obstacle.statement, place.text)


def _to_read_again(platform: Platform, source: CapturedSource, ids: set[TableId]) -> list[Table]:
    """These tables, and those whose models are wrong.

    Raises:
        CaughtUpTimeoutError: of a model it cannot be told yet.
    """
    found = tables_with_models(platform, source, [table.id for table in source.tables])
    wrong = wrong_models(platform, source, found, seconds=_MODEL_SECONDS)
    if unsettled := {id_: each for id_, each in wrong.items() if each.waits}:
        told = "; ".join(f"{id_}: {each.message}" for id_, each in unsettled.items())
        raise CaughtUpTimeoutError(f"{told}; then again: cdc repair model {source.name}")
    return [table for table in source.tables if table.id in ids or table.id in wrong]


def _database(source: CapturedSource) -> BinlogCapture:
    kind = onboarding_kind(source)
    assert kind is not None, source.kind_name
    return cast(BinlogCapture, kind.database(source))
