"""MongoDB: a replica set's oplog, and pre-images where they are declared. Commands, what their answers mean, and who asks
them.

https://www.mongodb.com/docs/manual/changeStreams/
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdc_assets.capture.preflight import driver_inspection
from cdc_assets.capture.preflight.inspection import NOT_SEEN, Finding, Report
from cdc_assets.clients.databases.mongodb import open_client
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.databases import MongoDb
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import expect
from cdc_assets.registry.source_declaration import UnaskedSource

_OPLOG = {"find": "oplog.rs", "projection": {"ts": 1}, "limit": 1, "singleBatch": True}
# {name: (database, command)}; a mongos has no oplog of its own, and is asked for none.
COMMANDS: dict[str, tuple[str, dict[str, Any]]] = {
    "hello": ("admin", {"hello": 1}),
    "oplog_first": ("local", {**_OPLOG, "sort": {"$natural": 1}}),
    "oplog_last": ("local", {**_OPLOG, "sort": {"$natural": -1}}),
    "server": ("admin", {"serverStatus": 1, "oplogTruncation": 1}),
}
LEAST_OPLOG_HOURS = 72


def allowing(name: str, user: str) -> str:
    """What lets the role ask the command, or for the collections of the database called `name`."""
    database = "local" if name.startswith("oplog") else name
    role = f"{{role: {json.dumps('read')}, db: {json.dumps(database, ensure_ascii=False)}}}"
    return f"db.getSiblingDB({json.dumps('admin')}).grantRolesToUser({json.dumps(user, ensure_ascii=False)}, [{role}])"


def findings(tables: Sequence[TableId], answers: Mapping[str, Any], *, pre_images: bool = False) -> Iterator[Finding]:
    """The commands' answers by their names, of which only `hello`'s must be there; `collections`: {database: its answer}."""
    hello = answers["hello"]
    # `isdbgrid` is what a mongos says of itself. https://www.mongodb.com/docs/manual/changeStreams/
    if hello.get("setName") or hello.get("msg") == "isdbgrid":
        kind = f"replica set {hello['setName']}" if hello.get("setName") else "sharded cluster"
        yield Finding("replica_set", "ok", "server", kind)
    else:
        message = "is a standalone server: it has no oplog, and no change streams"
        yield Finding("replica_set", "fail", "server", message, "start it with --replSet rs0, then rs.initiate()")
    # The wire version says less than a version string, and every login may ask for it: 13 is MongoDB 5.0.
    if hello.get("maxWireVersion", 0) < 13:
        yield Finding("version", "fail", "server", "is older than MongoDB 5.0", "upgrade it")
    yield from _oplog(answers)
    for table in tables:
        if (answer := answers["collections"].get(table.schema)) is None:
            continue
        collection = {one["name"]: one for one in answer["cursor"]["firstBatch"]}.get(table.table)
        if collection is None:
            yield Finding("collection", "fail", str(table), NOT_SEEN, "correct its name in the registry, or create it")
        elif collection.get("type") == "view":
            yield Finding("collection", "fail", str(table), "is a view: it has no change stream", "declare what it is made of")
        elif pre_images and not collection.get("options", {}).get("changeStreamPreAndPostImages", {}).get("enabled"):
            database, name = (json.dumps(name_part, ensure_ascii=False) for name_part in table)
            mend = f"db.getSiblingDB({database}).runCommand({{collMod: {name}, changeStreamPreAndPostImages: {{enabled: true}}}})"
            yield Finding("pre_images", "fail", str(table), "keeps no pre-images, which images: with_pre_image needs", mend)
        else:
            yield Finding("collection", "ok", str(table), "exists")


def _oplog(answers: Mapping[str, Any]) -> Iterator[Finding]:
    """How far back it reaches, or will: what a server promises to keep (minRetentionHours) counts while it is still young."""
    ends = [answers[name]["cursor"]["firstBatch"] for name in ("oplog_first", "oplog_last") if name in answers]
    if len(ends) < 2 or not all(ends):
        return
    first, last = (batch[0]["ts"].time for batch in ends)
    hours = (last - first) / 3600
    # A capped collection: it holds bytes, not hours, but where minRetentionHours is set (4.4 and newer).
    # https://www.mongodb.com/docs/manual/core/replica-set-oplog/
    promised = answers.get("server", {}).get("oplogTruncation", {}).get("oplogMinRetentionHours") or 0
    if max(hours, promised) >= LEAST_OPLOG_HOURS:
        yield Finding("oplog", "ok", "server", f"the oplog spans {hours:.0f} h" + (f", kept {promised:g} h" if promised else ""))
        return
    message = f"the oplog spans {hours:.0f} h: a connector that is down for longer needs a snapshot"
    mend = "db.adminCommand({replSetResizeOplog: 1, minRetentionHours: 168})"
    yield Finding("oplog", "warn", "server", message, mend)


def inspect(chain: Chain[UnaskedSource]) -> Report:
    """All findings; a server that cannot be reached is one."""
    return driver_inspection.inspect_by_driver(chain, ask_mongodb)


def ask_mongodb(source: UnaskedSource, tables: list[TableId], user: str) -> Iterator[Finding]:
    """The findings of the cluster, without its topics."""
    database = expect(source.database, MongoDb)

    def answer(where: str, command: dict[str, Any]) -> Any:
        with open_client(database) as client:
            return client[where].command(command)

    answers = driver_inspection.Answers(hello=answer(*COMMANDS["hello"]), collections={})
    for name in ("oplog_first", "oplog_last", "server") if answers["hello"].get("setName") else ():
        try:
            answers[name] = answer(*COMMANDS[name])
        except DatabaseError as error:
            if name == "oplog_first":
                yield driver_inspection.refusal_of("oplog", error, allowing(name, user))
    for name in sorted({table.schema for table in tables}):
        of_database = [table.table for table in tables if table.schema == name]
        try:
            command = {"listCollections": 1, "filter": {"name": {"$in": of_database}}}
            answers["collections"][name] = answer(name, command)
        except DatabaseError as error:
            yield driver_inspection.refusal_of(f"collections of {name}", error, allowing(name, user), needed=True)
    yield from findings(tables, answers, pre_images=database.images == "with_pre_image")
