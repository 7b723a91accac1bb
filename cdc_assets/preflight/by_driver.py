"""Asks a MySQL, SQL Server, Oracle or MongoDB for what its kind's file wants to know, through the driver that reads its rows.

Each query has a connection of its own: one that the role may not ask is told with the statement that allows it, and takes
nothing from the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cdc_assets import settings
from cdc_assets.errors import CdcAssetsError, DatabaseError, DriverMissingError
from cdc_assets.preflight import mongodb, mysql, oracle, sqlserver
from cdc_assets.preflight.column_names import column_name_findings
from cdc_assets.preflight.finding import Finding
from cdc_assets.registry.identifiers import TableId, parse_table
from cdc_assets.registry.mongodb import MongoDb
from cdc_assets.registry.sqlserver import SqlServer
from cdc_assets.registry.unasked_source import UnaskedSource
from cdc_assets.resources.rows.mongodb import open_client
from cdc_assets.resources.rows.open import open_connection
from cdc_assets.resources.rows.sql import Connection

Answers = dict[str, Any]


@dataclass(frozen=True)
class _Rules:
    """Of one kind that is asked in SQL; nothing can be said without the answers to `needed`."""

    queries: Mapping[str, str]
    needed: frozenset[str]
    findings: Callable[[UnaskedSource, list[TableId], Answers, str], Iterator[Finding]]
    allowing: Callable[[str, str], str]
    asked: Callable[[str, Answers], bool] = lambda _name, _answers: True


def place(source: UnaskedSource) -> str:
    """Where its database is, for messages."""
    database = source.database
    if isinstance(database, MongoDb):
        return settings.resolve(database.hosts)
    return f"{settings.resolve(database.host)}:{settings.resolve(database.port)}"


def findings(source: UnaskedSource) -> Iterator[Finding]:
    """Every rule of its kind; a server that cannot be reached, or a driver that is not there, is one."""
    database, tables = source.database, _tables_in_capture(source)
    for table in source.tables:
        yield from column_name_findings(table, [*table.columns])
    try:
        user = settings.resolve(database.user)
        if isinstance(database, MongoDb):
            yield from _of_mongodb(database, tables, user)
        else:
            yield from _of_sql(source, open_connection(database), tables, user)
    except DriverMissingError as error:
        yield Finding("reachable", "fail", "server", f"cannot be asked: {error.what}", error.install)
    except CdcAssetsError as error:
        yield Finding("reachable", "fail", "server", f"cannot be asked: {error}", "mend that first")


def _of_sql(source: UnaskedSource, server: Connection, tables: list[TableId], user: str) -> Iterator[Finding]:
    with server.cursor():
        pass  # what fails from here on is one query's own
    rules, answers, schemas = _RULES[source.database.kind], Answers(), sorted({table.schema for table in tables})
    for name, query in rules.queries.items():
        if not rules.asked(name, answers):
            continue
        placed = query.format(schemas=", ".join(server.statements.placeholder(i + 1) for i in range(len(schemas))))
        try:
            with server.cursor() as cursor:
                cursor.execute(placed, *([schemas] if placed != query else ()))
                answers[name] = [*cursor.fetchall()]
        except DatabaseError as error:
            yield _refusal(name, error, rules.allowing(name, user), needed=name in rules.needed)
    if rules.needed <= answers.keys():
        yield from rules.findings(source, tables, answers, user)


def _of_mongodb(database: MongoDb, tables: list[TableId], user: str) -> Iterator[Finding]:
    def ask(where: str, command: dict[str, Any]) -> Any:
        with open_client(database) as client:
            return client[where].command(command)

    answers = Answers(hello=ask(*mongodb.COMMANDS["hello"]), collections={})
    for name in ("oplog_first", "oplog_last", "server") if answers["hello"].get("setName") else ():
        try:
            answers[name] = ask(*mongodb.COMMANDS[name])
        except DatabaseError as error:
            if name == "oplog_first":
                yield _refusal("oplog", error, mongodb.allowing(name, user))
    for name in sorted({table.schema for table in tables}):
        try:
            answers["collections"][name] = ask(name, mongodb.collections_command(tables, name))
        except DatabaseError as error:
            yield _refusal(f"collections of {name}", error, mongodb.allowing(name, user), needed=True)
    yield from mongodb.findings(tables, answers, pre_images=database.images == "with_pre_image")


def _refusal(name: str, error: DatabaseError, mend: str, *, needed: bool = False) -> Finding:
    return Finding("refused", "fail" if needed else "warn", name, f"cannot be looked at: {error}", mend)


def _tables_in_capture(source: UnaskedSource) -> list[TableId]:
    """The declared tables, and those of ours that are captured like them."""
    ours = (source.reconciliation.marker, source.reconciliation.signals)
    return [*(table.id for table in source.tables), *(parse_table(name) for name in ours if name)]


def _mysql(source: UnaskedSource, tables: list[TableId], answers: Answers, user: str) -> Iterator[Finding]:
    # Debezium itself writes into the signal table where a window of a snapshot opens and closes.
    ours = {source.reconciliation.marker: ("INSERT", "DELETE"), source.reconciliation.signals: ("INSERT",)}
    written = {parse_table(name): what for name, what in ours.items() if name}
    return mysql.findings(tables, answers, user=user, keyed=tables, written=written)


def _sqlserver(source: UnaskedSource, tables: list[TableId], answers: Answers, user: str) -> Iterator[Finding]:
    assert isinstance(source.database, SqlServer)
    isolated = source.database.snapshot_isolation == "snapshot"
    return sqlserver.findings(tables, answers, snapshot_isolation=isolated, user=user)


def _oracle(_: UnaskedSource, tables: list[TableId], answers: Answers, user: str) -> Iterator[Finding]:
    return oracle.findings(tables, answers, keyed=tables)


_RULES = {
    "mysql": _Rules(
        {**mysql.QUERIES, **mysql.FILTERS}, frozenset(mysql.QUERIES), _mysql, mysql.allowing, asked=mysql.is_answerable
    ),
    "sqlserver": _Rules(
        sqlserver.QUERIES, frozenset({"database", "tables"}), _sqlserver, sqlserver.allowing, asked=sqlserver.is_answerable
    ),
    "oracle": _Rules(oracle.QUERIES, frozenset({"tables", "log_groups"}), _oracle, oracle.allowing),
}
