"""The rules of one table of a PostgreSQL source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cdc_assets.preflight.finding import Finding, Level
from cdc_assets.preflight.postgresql_columns import column_findings
from cdc_assets.preflight.postgresql_facts import END_TRANSACTION, PostgresFacts
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.identifiers import TableId
from spark.delta.identifiers import double_quote


def table_findings(declared: Table, facts: PostgresFacts) -> Iterator[Finding]:
    """Of one declared table."""
    table = declared.id
    found, name, user = facts.tables.get(table), str(table), facts.server["user"]
    if found is None:
        yield Finding("table", "fail", name, "does not exist, or is no table", "correct its name in the registry, or create it")
        return
    if not found["usage"]:
        mend = f"GRANT USAGE ON SCHEMA {double_quote(table.schema)} TO {double_quote(user)}"
        yield Finding("privileges", "fail", name, f"role {user} may not look into schema {table.schema}", mend)
    if not found["select"]:
        mend = f"GRANT SELECT ON {double_quote(*table)} TO {double_quote(user)}"
        yield Finding("privileges", "fail", name, f"role {user} may not read it, so there is no snapshot", mend)
    if found["persistence"] != "p":
        kind = "unlogged" if found["persistence"] == "u" else "temporary"
        yield Finding(
            "logged", "fail", name, f"is {kind}: its changes are not in the log", f"ALTER TABLE {double_quote(*table)} SET LOGGED"
        )
    yield from _holders(name, facts.locked.get(table, ()))
    yield from _partitions(name, found)
    yield from column_findings(declared, found, user)
    published = facts.publication is not None and [*table] in facts.publication["tables"]
    identity = _identity(table, found, published=published)
    yield identity
    if identity.level == "ok":
        yield from _other_identity(declared, found)
    if found["children"]:
        listed = ", ".join(str(TableId(*child["table"])) for child in found["children"])
        message = (
            f"has tables that inherit from it ({listed}), and a snapshot would read their rows as its own, without their changes "
            "later. Declare only: true for it; and those tables as well, if their rows are wanted"
        )
        held = f"its own rows are captured, not those of {listed}"
        yield Finding("inheritance", "ok", name, held) if declared.only else Finding("inheritance", "fail", name, message)
    if declared.without_key == "multiset" and any(leaf["identity"] != "f" for leaf in found["leaves"]):
        message = "is applied as a multiset, and its updates and deletes do not say by the whole row which one they take away"
        mend = f"ALTER TABLE {double_quote(*table)} REPLICA IDENTITY FULL"
        yield Finding("whole_rows", "fail", name, message, mend, safe=bool(found["owned"]))


def _holders(name: str, holders: Sequence[str]) -> Iterator[Finding]:
    if holders:
        message = (
            f"is held exclusively by {', '.join(holders)}: who reads it waits, and so does the connector whenever it starts: it "
            "says RUNNING and sends nothing"
        )
        yield Finding("table_lock", "warn", name, message, END_TRANSACTION)


def _partitions(name: str, found: Mapping[str, Any]) -> Iterator[Finding]:
    """Those whose rows a snapshot reads, and whose changes are in no log of this server."""
    if not found["partitioned"]:
        return
    for leaf in found["leaves"]:
        if leaf["persistence"] != "p":
            place = TableId(*leaf["table"])
            message = f"partition {place} is unlogged: its changes are not in the log"
            yield Finding("logged", "fail", name, message, f"ALTER TABLE {double_quote(*place)} SET LOGGED")
    for parts in found["foreign"]:
        message = f"partition {TableId(*parts)} is a foreign table: a snapshot reads its rows, and no change of them comes"
        yield Finding("logged", "fail", name, message, "declare the partitions that lie here, or detach that one")


def _identity(table: TableId, found: Mapping[str, Any], *, published: bool) -> Finding:
    """Whether the application may change rows of the table, and of each of its partitions."""
    # A publication takes in what inherits from a table, so the application's changes of that fail as well.
    parts = [*found["leaves"], *found["children"]]
    name, worst = str(table), next((part for part in parts if not _tells(part)), None)
    if worst is None:
        kinds = {"d": "its primary key", "f": "the full row", "i": "an index"}
        told = sorted({kinds[leaf["identity"]] for leaf in found["leaves"]})
        return Finding("replica_identity", "ok", name, f"replica identity is {' or '.join(told) or 'that of its partitions'}")
    place = TableId(*worst["table"])
    of = "" if place == table else f"{'partition' if found['partitioned'] else 'its child'} {place} "
    fails = "once published, the application's UPDATE and DELETE on it fail"
    if worst["identity"] == "i" or (worst["identity"] == "n" and found["key"] and worst in found["leaves"]):
        default = found["key"] and worst in found["leaves"]
        mend = f"ALTER TABLE {double_quote(*place)} REPLICA IDENTITY {'DEFAULT' if default else 'FULL'}"
        what = "has REPLICA IDENTITY NOTHING" if worst["identity"] == "n" else "has lost the index of its replica identity"
        message = f"{of}{what}: {fails}"
        return Finding("replica_identity", "fail", name, message, mend, safe=bool(found["owned"]))
    changes = int(str(found["changed"]))
    message = f"{of}has no key and no replica identity: {fails}"
    mend = f"ALTER TABLE {double_quote(*place)} REPLICA IDENTITY FULL"
    if changes:
        seen = f"; it had {changes} of them since the statistics began"
        return Finding("replica_identity", "fail", name, message + seen, mend, safe=bool(found["owned"]))
    # Published and not complained of: what was a question before is answered.
    level: Level = "ok" if published else "warn"
    message += "; it has only had INSERTs so far"
    return Finding("replica_identity", level, name, message, mend, safe=bool(found["owned"]))


def _other_identity(declared: Table, found: Mapping[str, Any]) -> Iterator[Finding]:
    """A DELETE tells the columns of the identity only: where the key is not among them, nobody knows which row went."""
    key = list(declared.keys or found["key"] or ())
    for leaf in found["leaves"]:
        identity = leaf["columns"] or []
        if leaf["identity"] == "f" or set(key) <= set(identity) or (leaf["identity"] == "i" and not identity):
            continue  # an index that was dropped is told as no identity at all
        place, by = TableId(*leaf["table"]), ", ".join(identity)
        what = "an index" if leaf["identity"] == "i" else "the primary key"
        default = not declared.keys and found["key"]
        message = (
            f"replica identity is {what} ({by}), and a DELETE does not tell the key ({', '.join(key)}): deleted rows would "
            f"stay in silver; or declare keys: [{by}] for the table, before it is captured"
        )
        mend = f"ALTER TABLE {double_quote(*place)} REPLICA IDENTITY {'DEFAULT' if default else 'FULL'}"
        yield Finding("identity_columns", "fail", str(declared.id), message, mend, safe=bool(found["owned"]))
        return


def _tells(leaf: Mapping[str, Any]) -> bool:
    return leaf["identity"] == "f" or bool(leaf["columns"])


def is_identified(found: Mapping[str, Any]) -> bool:
    """Whether the log tells which rows of the table were changed."""
    return all(_tells(part) for part in (*found["leaves"], *found["children"]))
