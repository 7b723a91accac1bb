"""The tables that a running connector captures, by its lists and its publication, and what their topics are called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from cdc_assets.adoption.running_connector import RunningConnector
from cdc_assets.connectors.kept_settings import is_listed, transforms_of
from cdc_assets.errors import AdoptionError
from cdc_assets.registry.identifiers import TableId

_ROUTER = "RegexRouter"


def is_captured(running: RunningConnector, table: TableId, database: str = "") -> bool:
    """Whether the connector's lists take the table; in lists of tables its name is `schema.table`."""
    name = ".".join(table)
    lists = (
        ("table.include.list", name, True),
        ("table.exclude.list", name, False),
        ("schema.include.list", table.schema, True),
        ("schema.exclude.list", table.schema, False),
        ("database.include.list", database or table.schema, True),
        ("database.exclude.list", database or table.schema, False),
    )
    return all(
        is_listed(named, running.config[key].split(",")) is wanted for key, named, wanted in lists if running.config.get(key)
    )


def tables_of_lists(running: RunningConnector, there: Iterable[TableId], *, database: str = "") -> list[TableId]:
    """Those of the server's tables that the connector's lists take, but for the one of its signals."""
    signals = running.config.get("signal.data.collection", "")
    return sorted(table for table in there if is_captured(running, table, database) and ".".join(table) != signals)


def table_entries(
    running: RunningConnector, found: Iterable[TableId], topics: Mapping[TableId, str], derived: Mapping[TableId, str]
) -> list[dict[str, Any]]:
    """Each table as a registry has it: with the keys and the topic that the connector gives it."""
    keys, left_out = message_keys(running), running.config.get("column.exclude.list", "")
    entries = []
    for table in sorted(found):
        entry: dict[str, Any] = {"name": str(table)}
        if table in keys:
            entry["keys"] = keys[table]
        if columns := _columns_of_list(table, left_out):
            entry["except_column_list"] = columns
        if topics[table] != derived[table]:
            entry["topic"] = topics[table]
        entries.append(entry)
    return entries


def final_topic(running: RunningConnector, topic: str) -> str:
    """What the connector's transforms make of a topic's name.

    Raises:
        AdoptionError: by a transform that cannot be followed from here.
    """
    for name in transforms_of(running.config):
        kind = running.config.get(f"transforms.{name}.type", "").rsplit(".", 1)[-1]
        if kind == _ROUTER:
            topic = _apply_router(running, name, topic)
        elif "Router" in kind:
            raise AdoptionError(
                f"connector {running.name}: transform {name} ({kind}) renames topics in a way that is not followed here; write "
                "the entry by hand, with each table's topic (docs/how-to/adopt.md)"
            )
    return topic


def _apply_router(running: RunningConnector, name: str, topic: str) -> str:
    pattern, replacement = (running.config.get(f"transforms.{name}.{part}", "") for part in ("regex", "replacement"))
    # Java writes $1 and ${name} for a group.
    template = re.sub(r"\$(?:\{(\w+)\}|(\d+))", lambda m: rf"\g<{m[1] or m[2]}>", replacement)
    try:
        whole = re.fullmatch(pattern.replace("(?<", "(?P<"), topic)
        return whole.expand(template) if whole else topic
    except (re.error, IndexError) as error:
        raise AdoptionError(
            f"connector {running.name}: transforms.{name}.regex {pattern!r} cannot be followed: {error}"
        ) from None


def message_keys(running: RunningConnector) -> dict[TableId, list[str]]:
    """`message.key.columns` by table, of entries that name one table without a pattern."""
    found: dict[TableId, list[str]] = {}
    for entry in filter(None, running.config.get("message.key.columns", "").split(";")):
        table, _, columns = entry.rpartition(":")
        parts = re.fullmatch(r"(?:\(\?-i\))?([\w]+)\\?\.([\w]+)", table.strip())
        if parts:
            found[TableId(*parts.groups())] = [column.strip() for column in columns.split(",")]
    return found


def _columns_of_list(table: TableId, listed: str) -> list[str]:
    """Of a list of `schema.table.column` the table's, where they are no patterns."""
    begin = ".".join(table) + "."
    names = (name.strip().replace("\\.", ".") for name in listed.split(",") if name.strip())
    return [name.removeprefix(begin) for name in names if name.startswith(begin) and re.fullmatch(r"\w+", name[len(begin) :])]
