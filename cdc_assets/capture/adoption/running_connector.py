"""A Debezium connector as Connect has it: its settings, the tables that it captures, the names of their topics, and what
its kind of database adds to the entry.

A connector that is none of Debezium's, is declared already or does not run is refused here, with the command that helps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cdc_assets.capture.connectors.connector_inventory import connector_owners
from cdc_assets.capture.connectors.setting_overrides import is_listed, transforms_of
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.connector_states import is_reference, is_secret, mask_text, mask_value
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import KINDS, Kind
from cdc_assets.registry.references import KEPT
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource

_DEBEZIUM = "io.debezium.connector."


@dataclass(frozen=True)
class RunningConnector:
    """Its config with secrets among it, never printed; what each setting is where the config has none; what it has committed."""

    name: str
    url: str
    kind: Kind
    config: Mapping[str, str] = field(repr=False)
    defaults: Mapping[str, str | None]
    password_keys: frozenset[str]
    offsets: tuple[Mapping[str, Any], ...]

    def setting(self, key: str) -> str | None:
        """What holds: the config's value, else the plugin's default."""
        return self.config.get(key, self.defaults.get(key))

    def display(self, key: str) -> str | None:
        """The config's value, fit to be printed and written."""
        return mask_value(key, self.config[key], self.password_keys) if key in self.config else None

    def value_to_keep(self, key: str) -> str | None:
        """The config's value as a registry may hold it: a secret only as `(kept)`."""
        return registry_value(key, self.config.get(key), self.password_keys)


def registry_value(key: str, value: str | None, password_keys: frozenset[str]) -> str | None:
    """A setting's value as a registry may hold it; None where there is none."""
    if value is None or is_reference(value):
        return value
    return KEPT if is_secret(key, password_keys) or mask_text(value) != value else value


def read_connector(connect: ConnectClient, name: str, sources: Iterable[BaseSource]) -> RunningConnector:
    """The connector, which runs.
    Raises RefusalError: there is none, it is none of Debezium's, or of a kind that is not taken over, it is declared already, or
    it does not run; ServiceError: Connect cannot be asked."""
    config = connect.config(name)
    if config is None:
        others = [
            other.name for other in connect.overview().values() if other.config.get("connector.class", "").startswith(_DEBEZIUM)
        ]
        raise RefusalError(
            f"no connector {name} at {connect.url}; connectors of Debezium there: {', '.join(others) or 'none'}; "
            "cdc get connectors"
        )
    kind = _kind_of(name, config.get("connector.class", ""))
    _refuse_declared(name, sources)
    status = connect.status(name)
    if status is None or not status.running:
        state = "nobody knows its state" if status is None else f"{status.state}, tasks {', '.join(status.tasks) or 'none'}"
        why = f": {'; '.join(status.trace)}" if status and status.trace else ""
        way = f"cdc resume {name}" if status and status.state in ("PAUSED", "STOPPED") else f"cdc restart {name}"
        raise RefusalError(f"connector {name} at {connect.url} does not run ({state}){why}; {way}, then cdc adopt {name}")
    plugin = config["connector.class"]
    return RunningConnector(
        name=name,
        url=connect.url,
        kind=kind,
        config=config,
        defaults=connect.default_values(plugin),
        password_keys=connect.password_keys(plugin),
        offsets=tuple(connect.offsets(name)),
    )


def _kind_of(name: str, connector_class: str) -> Kind:
    from cdc_assets.capture.kind_capture import CAPTURE

    if not connector_class.startswith(_DEBEZIUM):
        raise RefusalError(
            f"connector {name} is {connector_class or 'of no class'}, and not one of Debezium's that captures a database; topics "
            "that others fill are a source of kind topics (docs/how-to/add-a-source.md)"
        )
    adoptable = [KINDS[name] for name, row in CAPTURE.items() if row.adoption]
    kind = next((kind for kind in adoptable if kind.debezium == connector_class.removeprefix(_DEBEZIUM)), None)
    if kind is None:
        kinds = ", ".join(kind.name for kind in adoptable)
        raise RefusalError(
            f"connector {name} is {connector_class}, and cdc adopt takes over those of kind {kinds} only. By hand: declare the "
            "source with capture.connector, capture.topic_prefix and its tables' columns; then cdc diff (docs/how-to/adopt.md)"
        )
    return kind


def _refuse_declared(name: str, sources: Iterable[BaseSource]) -> None:
    owners = connector_owners(sources)
    if name in owners:
        raise RefusalError(f"connector {name} is declared already, by source {owners[name]}: cdc diff {owners[name]}")
    if name in map(names.temporary, owners):
        raise RefusalError(f"connector {name} is a temporary one of an onboarding, and goes by itself; cdc get connectors")


_PLACES = (
    (r"\$\{file:(/[A-Za-z0-9_./-]+):([A-Za-z0-9_.-]+)\}", lambda m: {"file": m[1], "key": m[2]}),
    (r"\$\{env:([A-Z][A-Z0-9_]*)\}", lambda m: {"env": m[1]}),
)


@dataclass(frozen=True)
class FoundAtSource:
    """What the source's server says of the connector: its tables, and what it keeps for it.

    `facts` are printed, `notes` say what a person should know. `blocks` are keys of the entry that only the server could tell.
    """

    tables: Sequence[TableId]
    keyless: Sequence[TableId] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    blocks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class AdoptionKind(Protocol):
    """One kind of database, as `cdc adopt` asks for it."""

    def database(self, running: RunningConnector, password: Mapping[str, Any]) -> dict[str, Any]:
        """The block `database` of the entry."""

    def capture(self, running: RunningConnector) -> dict[str, Any]:
        """The names and forms of the block `capture` that this kind has."""

    def look(self, running: RunningConnector, source: CapturedSource) -> FoundAtSource:
        """What the server says; the source has its address, and no tables that mean anything yet."""


def secret_reference(source: str, placeholder: str) -> dict[str, Any]:
    """The reference for a password that the connector's config has as `placeholder`, or in clear."""
    for pattern, on_connect in _PLACES:
        if match := re.fullmatch(pattern, placeholder):
            return {"secret": f"{source}_password", "on_connect": on_connect(match)}
    if named := re.fullmatch(r"\$\{dir:[^:}]+:([A-Za-z0-9_.-]+)\}", placeholder):
        return {"secret": named[1]}
    return {"secret": f"{source}_password"}


def handling_modes(running: RunningConnector, modes: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
    """The value forms (`decimal`, …) that are not `ours`, by the settings that tell them."""
    theirs = {name: running.setting(key) for name, key in modes.items()}
    return {name: value for name, value in theirs.items() if value is not None and value != ours[name]}


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
        is_listed(named, running.config[key].split(",")) is is_include
        for key, named, is_include in lists
        if running.config.get(key)
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
    Raises RefusalError: by a transform that cannot be followed from here."""
    for name in transforms_of(running.config):
        kind = running.config.get(f"transforms.{name}.type", "").rsplit(".", 1)[-1]
        if kind == _ROUTER:
            topic = _apply_router(running, name, topic)
        elif "Router" in kind:
            raise RefusalError(
                f"connector {running.name}: transform {name} ({kind}) renames topics in a way that is not followed here; write "
                "the entry by hand, with each table's topic (docs/how-to/adopt.md)"
            )
    return topic


def _apply_router(running: RunningConnector, name: str, topic: str) -> str:
    pattern, replacement = (running.config.get(f"transforms.{name}.{option}", "") for option in ("regex", "replacement"))
    # Java writes $1 and ${name} for a group.
    template = re.sub(r"\$(?:\{(\w+)\}|(\d+))", lambda m: rf"\g<{m[1] or m[2]}>", replacement)
    try:
        whole = re.fullmatch(pattern.replace("(?<", "(?P<"), topic)
        return whole.expand(template) if whole else topic
    except (re.error, IndexError) as error:
        raise RefusalError(f"connector {running.name}: transforms.{name}.regex {pattern!r} cannot be followed: {error}") from None


def message_keys(running: RunningConnector) -> dict[TableId, list[str]]:
    """`message.key.columns` by table, of entries that name one table without a pattern."""
    keys: dict[TableId, list[str]] = {}
    for entry in filter(None, running.config.get("message.key.columns", "").split(";")):
        table, _, columns = entry.rpartition(":")
        parts = re.fullmatch(r"(?:\(\?-i\))?([\w]+)\\?\.([\w]+)", table.strip())
        if parts:
            keys[TableId(*parts.groups())] = [column.strip() for column in columns.split(",")]
    return keys


def _columns_of_list(table: TableId, listed: str) -> list[str]:
    """Of a list of `schema.table.column` the table's, where they are no patterns."""
    begin = ".".join(table) + "."
    names = (name.strip().replace("\\.", ".") for name in listed.split(",") if name.strip())
    return [name.removeprefix(begin) for name in names if name.startswith(begin) and re.fullmatch(r"\w+", name[len(begin) :])]
