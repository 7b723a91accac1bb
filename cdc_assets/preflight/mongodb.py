"""MongoDB: a replica set's oplog, and pre-images where they are declared. Commands and their meaning; pure.

https://www.mongodb.com/docs/manual/changeStreams/
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdc_assets.preflight.finding import Finding
from cdc_assets.registry.identifiers import TableId

# {name: (database, command)}; `collections` is asked of every database.
COMMANDS: dict[str, tuple[str, dict[str, Any]]] = {
    "hello": ("admin", {"hello": 1}),
    "server": ("admin", {"serverStatus": 1, "oplogTruncation": 1}),
    "collections": ("{database}", {"listCollections": 1}),
}
LEAST_OPLOG_HOURS = 72


def findings(
    tables: Sequence[TableId], answers: Mapping[str, Any], *, oplog_hours: float | None, pre_images: bool = False
) -> Iterator[Finding]:
    """`hello`'s answer, `collections` by database (the batch), and how many hours the oplog spans (last minus first ts)."""
    hello = answers["hello"]
    if hello.get("setName") or hello.get("msg") == "isdbgrid":
        kind = f"replica set {hello['setName']}" if hello.get("setName") else "sharded cluster"
        yield Finding("replica_set", "ok", "server", kind)
    else:
        message = "is a standalone server: it has no oplog, and no change streams"
        yield Finding("replica_set", "fail", "server", message, "start it with --replSet rs0, then rs.initiate()")
    if hello.get("maxWireVersion", 0) < 13:
        yield Finding("version", "fail", "server", "is older than MongoDB 5.0", "upgrade it")
    if oplog_hours is not None and oplog_hours < LEAST_OPLOG_HOURS:
        message = f"the oplog spans {oplog_hours:.0f} h: a connector that is down for longer needs a snapshot"
        mend = "db.adminCommand({replSetResizeOplog: 1, minRetentionHours: 168})"
        yield Finding("oplog", "warn", "server", message, mend, safe=True)
    for table in tables:
        found = {one["name"]: one for one in answers["collections"].get(table.schema, [])}.get(table.table)
        if found is None:
            yield Finding("collection", "fail", str(table), "does not exist", "correct its name in the registry, or create it")
        elif found.get("type") == "view":
            yield Finding("collection", "fail", str(table), "is a view: it has no change stream", "declare what it is made of")
        elif pre_images and not found.get("options", {}).get("changeStreamPreAndPostImages", {}).get("enabled"):
            place, name = (json.dumps(part, ensure_ascii=False) for part in table)
            mend = f"db.getSiblingDB({place}).runCommand({{collMod: {name}, changeStreamPreAndPostImages: {{enabled: true}}}})"
            yield Finding("pre_images", "fail", str(table), "keeps no pre-images, which images: with_pre_image needs", mend)
        else:
            yield Finding("collection", "ok", str(table), "exists")
