"""Gets a connector of a binlog past what it cannot read, and gives it the server's definitions of the tables that it misread.

1. The statement that it stands at is passed over, it alone (connectors.passed_statement). A table whose rows do not fit
   Debezium's model is left out meanwhile. Rows of a table with COMPRESSED columns are passed over as well, once no table has any
   more; a captured table of which there are such rows is left out.
2. When the connector has read all that is in the binlog, the models of the tables are compared with the server's catalogue.
3. A table whose model differs, or that was left out, is read again: the connector gets its definition from the server, at the
   place where it goes on (onboarding.binlog_onboarding), and bronze goes on in a new epoch, which holds the whole table.

Silver folds nothing of such a table until then (preflight.table_models). Nothing is written into the source but signals. Each
step looks at what is there, so a command that was killed is given again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

from cdc_assets.capture.connectors.apply_connector import HELD
from cdc_assets.capture.connectors.declared_connectors import tables_in_list
from cdc_assets.capture.connectors.temporary_connectors import is_passing, passing_config, without_passing
from cdc_assets.capture.log_position import CaughtUpTimeoutError
from cdc_assets.capture.named_log_position import await_binlog, carry_named, connector_position
from cdc_assets.capture.onboarding import onboarding_run as onboarding
from cdc_assets.capture.onboarding.onboarding_state import onboarding_kind
from cdc_assets.capture.preflight import binlog_rules
from cdc_assets.capture.preflight.table_models import tables_with_models, wrong_models
from cdc_assets.chain.table_reload import append_rest, plan_reloads, reload_bronze
from cdc_assets.clients.databases.binlog_capture import BinlogCapture
from cdc_assets.clients.source_chain import Chain, Say
from cdc_assets.registry import names
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import CapturedSource
from cdc_assets.registry.table_declaration import Table

if TYPE_CHECKING:
    from cdc_assets.clients.connector_states import Obstacle

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


def plan_repair(chain: Chain[CapturedSource], wanted: Sequence[Table]) -> ModelRepair:
    """What the connector stands at, and the tables whose models are wrong as far as it has read; nothing is changed."""
    status = chain.platform.core_connect(chain.source.cluster).status(names.connector_name(chain.source))
    obstacle = status.obstacle if status else None
    planned = ModelRepair()
    if obstacle is not None and obstacle.statement:
        planned.passed.append(_with_place(chain, obstacle))
    elif obstacle is None:
        planned.tables = _to_read_again(chain, {table.id for table in wanted})
    else:
        planned.tables = [table for table in chain.source.tables if obstacle.is_about(table.id)]
    return planned


def repair_models(chain: Chain[CapturedSource], wanted: Sequence[Table], say: Say) -> ModelRepair:
    """The connector runs behind what it stood at, and reads each table by the server's columns.

    `wanted`: tables that are read again in any case.

    Raises ServiceError: it has failed for another reason; RefusalError: a table cannot be read again; says what it lacks;
    CdcAssetsError: from a step of the reading, which `cdc onboard SOURCE --resume` goes on with.
    """
    repair, connect, name = ModelRepair(), chain.platform.core_connect(chain.source.cluster), names.connector_name(chain.source)
    status = connect.status(name)
    if status is None or status.state in HELD:
        seen = "has no status" if status is None else f"is {status.state}"
        raise ServiceError(f"connector {name} {seen}; cdc resume {name}, then again: cdc repair model {chain.source.name}")
    running = connect.config(name) or {}
    before = without_passing(running)
    # What a command that was killed has left out of the connector's list bronze has read before.
    listed = tables_in_list(chain.source, before)
    off_the_list = plan_reloads(chain, [table for table in chain.source.tables if table.name not in listed])
    left_out = _go_past(chain, repair, {plan.table.id for plan in off_the_list if not plan.is_first}, say)
    repair.tables = _to_read_again(chain, left_out | {table.id for table in wanted})
    if repair.tables:
        # Asked before another table is left out: without a signal table nothing could be read again.
        onboarding.judge(chain.platform, chain.source.name, [table.name for table in repair.tables], "incremental")
        _empty_topics(chain, repair, say)
        plans = [replace(plan, wanted=True) for plan in plan_reloads(chain, repair.tables, anew=True)]
        repair.epochs = reload_bronze(chain, plans, say)
    elif repair.passed or repair.unreadable or is_passing(running):
        _configure(chain, before)
        connect.wait_running(name)
    return repair


def _empty_topics(chain: Chain[CapturedSource], repair: ModelRepair, say: Say) -> None:
    """What was read by a wrong model is in bronze, below the epoch that begins: the connector sends no more of it."""
    connect, name = chain.platform.core_connect(chain.source.cluster), names.connector_name(chain.source)
    ids = {table.id for table in repair.tables}
    passed = [statement.statement for statement in repair.passed]
    config = without_passing(connect.config(name) or {})
    _configure(chain, passing_config(chain.source, config, passed, ids, unreadable=repair.unreadable))
    _go_past(chain, repair, ids, say)
    carry_named(chain, deadline=_DEADLINE_SECONDS, say=say)
    append_rest(chain, repair.tables, say)


def _go_past(chain: Chain[CapturedSource], repair: ModelRepair, left_out: set[TableId], say: Say) -> set[TableId]:
    """Until the connector has read what is in the binlog now; the tables that it runs without then."""
    connect, name = chain.platform.core_connect(chain.source.cluster), names.connector_name(chain.source)
    running, until = connect.config(name), time.monotonic() + _DEADLINE_SECONDS
    if running is None:
        raise ServiceError(f"connector {name} does not exist at {connect.url}: cdc apply {chain.source.name} makes it")
    # A command that was killed may have left it so; what it has left out is in `left_out`.
    running = without_passing(running)
    for obstacle in _obstacles(chain, until):
        if obstacle.table:
            tables = {table.id for table in chain.source.tables if obstacle.is_about(table.id)} - left_out
            if not tables:
                raise ServiceError(f"connector {name}: rows of {obstacle.table} do not fit its model ({obstacle.why})")
            say(f"rows of {', '.join(map(str, sorted(tables)))} do not fit Debezium's model: left out, and read again at the end")
            left_out = left_out | tables
        elif not obstacle.statement:
            left_out = left_out | _tables_with_compression(chain, repair, obstacle, say)
        else:
            statement = _with_place(chain, obstacle)
            if statement in repair.passed:
                raise ServiceError(f"connector {name} stands again at {statement.place}: {statement.statement}: {obstacle.why}")
            say(f"passing over the statement at {statement.place or 'an unknown place'}: {' '.join(statement.statement.split())}")
            repair.passed.append(statement)
        passed = [p.statement for p in repair.passed]
        _configure(chain, passing_config(chain.source, running, passed, left_out, unreadable=repair.unreadable))
    return left_out


def _tables_with_compression(chain: Chain[CapturedSource], repair: ModelRepair, obstacle: Obstacle, say: Say) -> set[TableId]:
    """The captured tables of which the binlog has rows with COMPRESSED columns, which are passed over from now on.
    Raises ServiceError: a table has such columns still, or they are passed over already."""
    name, database = names.connector_name(chain.source), _database(chain.source)
    with database.connection() as cursor:
        cursor.execute(binlog_rules.GAP_QUERIES["compressed"])
        still = [*binlog_rules.gap_tables((), (), cursor.fetchall())]
    if still:
        told = "; ".join(f"{found.subject}: {found.mend}" for found in still)
        raise ServiceError(
            f"connector {name} stops at each row of a table with COMPRESSED columns. End them first: {told}; "
            f"then again: cdc repair model {chain.source.name}"
        )
    if repair.unreadable:
        raise ServiceError(f"connector {name} stands again at rows that it cannot read: {obstacle.why}")
    since = connector_position(chain.platform.core_connect(chain.source.cluster), name)
    found = database.tables_with_compression([table.id for table in chain.source.tables], since) if since else set[TableId]()
    read = f"; read again at the end: {', '.join(map(str, sorted(found)))}" if found else ", none of them of a captured table"
    say(f"passing over rows with COMPRESSED columns behind {since.text if since else 'an unknown place'}{read}")
    repair.unreadable = True
    return found


def _obstacles(chain: Chain[CapturedSource], until: float) -> Iterator[Obstacle]:
    """What the connector meets, one after the other, until it has read what is in the binlog now.
    Raises ServiceError: it has failed for another reason."""
    connect, name, database = (
        chain.platform.core_connect(chain.source.cluster),
        names.connector_name(chain.source),
        _database(chain.source),
    )
    while True:
        status = connect.status(name)
        if status is not None and status.failed:
            if status.obstacle is None:
                raise ServiceError(f"connector {name} has failed: {'; '.join(status.trace)}; mend that, then cdc restart {name}")
            yield status.obstacle
            continue
        try:
            await_binlog(chain.source, f"model-{time.time_ns()}", database, connect, time.monotonic() + _LOOK_SECONDS)
            return
        except CaughtUpTimeoutError:
            if time.monotonic() > until:
                raise


def _configure(chain: Chain[CapturedSource], config: dict[str, str]) -> None:
    connect, name = chain.platform.core_connect(chain.source.cluster), names.connector_name(chain.source)
    connect.stop(name)
    connect.put_config(name, config)
    connect.resume(name)


def _with_place(chain: Chain[CapturedSource], obstacle: Obstacle) -> PassedStatement:
    """With its place, and whole; of a part that is in no statement of the binlog nothing more is known."""
    stored = connector_position(chain.platform.core_connect(chain.source.cluster), names.connector_name(chain.source))
    located = _database(chain.source).find_statement(obstacle.statement, stored) if stored else None
    if located is None:
        return PassedStatement(obstacle.statement, "")
    at, text = located
    return PassedStatement(text if obstacle.is_part else obstacle.statement, at.text)


def _to_read_again(chain: Chain[CapturedSource], ids: set[TableId]) -> list[Table]:
    """These tables, and those whose models are wrong. Raises CaughtUpTimeoutError: of a model it cannot be told yet."""
    catalogue = tables_with_models(chain, [table.id for table in chain.source.tables])
    wrong = wrong_models(chain, catalogue, seconds=_MODEL_SECONDS)
    if unsettled := {id_: model for id_, model in wrong.items() if model.waits}:
        waits = "; ".join(f"{id_}: {model.message}" for id_, model in unsettled.items())
        raise CaughtUpTimeoutError(f"{waits}; then again: cdc repair model {chain.source.name}")
    return [table for table in chain.source.tables if table.id in ids or table.id in wrong]


def _database(source: CapturedSource) -> BinlogCapture:
    kind = onboarding_kind(source)
    assert kind is not None, source.kind_name
    return cast(BinlogCapture, kind.database(source))
