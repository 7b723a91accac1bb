"""Asks a MongoDB through its driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cdc_assets.errors import DatabaseError
from cdc_assets.kinds import expect
from cdc_assets.preflight import by_driver, mongodb
from cdc_assets.preflight.finding import Finding, Report
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.mongodb import MongoDb
from cdc_assets.registry.unasked_source import UnaskedSource
from cdc_assets.resources.rows.mongodb import open_client

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform


def inspect(platform: Platform, source: UnaskedSource) -> Report:
    """All findings; a server that cannot be reached is one."""
    return by_driver.inspect(platform, source, ask)


def ask(source: UnaskedSource, tables: list[TableId], user: str) -> Iterator[Finding]:
    """The findings of the cluster, without its topics."""
    database = expect(source.database, MongoDb)

    def answer(where: str, command: dict[str, Any]) -> Any:
        with open_client(database) as client:
            return client[where].command(command)

    answers = by_driver.Answers(hello=answer(*mongodb.COMMANDS["hello"]), collections={})
    for name in ("oplog_first", "oplog_last", "server") if answers["hello"].get("setName") else ():
        try:
            answers[name] = answer(*mongodb.COMMANDS[name])
        except DatabaseError as error:
            if name == "oplog_first":
                yield by_driver.refusal_of("oplog", error, mongodb.allowing(name, user))
    for name in sorted({table.schema for table in tables}):
        try:
            answers["collections"][name] = answer(name, mongodb.collections_command(tables, name))
        except DatabaseError as error:
            yield by_driver.refusal_of(f"collections of {name}", error, mongodb.allowing(name, user), needed=True)
    yield from mongodb.findings(tables, answers, pre_images=database.images == "with_pre_image")
