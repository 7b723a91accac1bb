"""Which connectors the registry declares, by which config, and on which Connect cluster each of them runs.

| cluster | connector | for |
|---|---|---|
| core | `<source>-capture` (Debezium) | sources with a database |
| lake | `<source>-mirror` (MirrorMaker 2) | sources whose topics are on the core cluster |
| lake | `<source>-checkpoints`, `<source>-heartbeats` (MirrorMaker 2) | such sources that declare them under `mirror` |

Any other connector of these clusters is foreign, and is never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from cdc_assets.capture.connectors.debezium_settings import SIGNALS, exact_pattern, table_pattern
from cdc_assets.capture.connectors.mirrormaker2 import checkpoint_config, heartbeat_config, mirror_config
from cdc_assets.capture.connectors.setting_overrides import is_listed, topic_routes, with_settings, with_topics
from cdc_assets.registry import names
from cdc_assets.registry.field_types import parse_table
from cdc_assets.registry.kinds import kind_of
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource


def capture_config(source: CapturedSource) -> dict[str, str]:
    """The whole config of the source's capturing connector."""
    config = with_topics(_with_tables_of_ours(source, config_of_kind(source)), topic_routes(source))
    return with_settings(config, source.capture.settings, _patterns_by_name(source, config))


def _patterns_by_name(source: CapturedSource, config: Mapping[str, str]) -> dict[str, str]:
    """What a list of tables that is not ours must name too, with our pattern for it."""
    takes_signals = source.capture.settings.get(SIGNALS, config.get(SIGNALS)) is not None
    signals = [names.signal_table(source)] if takes_signals else []
    pattern_of = _pattern_of(source)
    return {".".join(table): pattern_of(*table) for table in (*(table.id for table in source.tables), *signals)}


def _pattern_of(source: CapturedSource) -> Callable[..., str]:
    """Where a server or a store compares names, or takes the pattern itself, the plain one stays."""
    return table_pattern if kind_of(source).plain_patterns else exact_pattern


def config_of_kind(source: CapturedSource) -> dict[str, str]:
    """The config without tables of ours, as the source's kind makes it."""
    from cdc_assets.capture.kind_capture import capture_of

    render = capture_of(source).connector
    assert render is not None, source.kind_name
    return render(source)


def _with_tables_of_ours(source: CapturedSource, config: dict[str, str]) -> dict[str, str]:
    """Captured like tables, but no assets: `cdc reconcile` waits for the marker's rows (proof.source_sides), and `--heal`
    writes signals (proof.healing)."""
    # Where the server is asked for its place, the kind's own config has them.
    signals = None if source.asked else names.signal_declaration(source)
    config = dict(config)
    if signals:
        config["signal.enabled.channels"] = "source"
        config[SIGNALS] = names.collection(source, parse_table(signals))
    listed = "table.include.list" if "table.include.list" in config else "collection.include.list"
    pattern_of = _pattern_of(source)
    for table in (parse_table(name) for name in (source.reconciliation.marker, signals) if name):
        more = {listed: pattern_of(*table), "database.include.list": pattern_of(table.schema)}
        config |= {
            key: ",".join(dict.fromkeys([*config[key].split(","), pattern])) for key, pattern in more.items() if key in config
        }
    return config


def tables_in_list(source: BaseSource, running: Mapping[str, str]) -> list[str]:
    """The declared tables that a running connector's list has, however it is written."""
    patterns = running.get("table.include.list", running.get("collection.include.list", ".*")).split(",")
    return [table.name for table in source.tables if is_listed(".".join(table.id), patterns)]


def as_listed(source: CapturedSource, running: Mapping[str, str], more: Collection[str] = ()) -> CapturedSource:
    """The source with the tables that a running connector's list has, and `more`, by their names in the registry."""
    listed = {*tables_in_list(source, running), *more}
    return source.model_copy(update={"tables": tuple(table for table in source.tables if table.name in listed)})


def not_listed(source: BaseSource, running: Mapping[str, str] | None) -> str:
    """The declared tables that a running connector's list does not have, as `cdc onboard` takes them; empty without one."""
    if running is None:
        return ""
    there = tables_in_list(source, running)
    return " ".join(table.name for table in source.tables if table.name not in there)


Role = Literal["capture", "mirror", "checkpoints", "heartbeats"]


@dataclass(frozen=True)
class DeclaredConnector:
    """One connector as the registry wants it."""

    source: BaseSource
    role: Role
    cluster: str
    name: str
    config: Mapping[str, str]


def declared_connectors(sources: Iterable[BaseSource]) -> list[DeclaredConnector]:
    """In the order in which data flows through them."""
    connectors = []
    for source in sources:
        if own := source.captured:
            connectors.append(DeclaredConnector(own, "capture", own.cluster, names.connector_name(own), capture_config(own)))
        if names.is_mirrored(source):
            connectors.append(
                DeclaredConnector(source, "mirror", "lake", names.mirror_connector_name(source), mirror_config(source))
            )
            connectors += _beside_the_mirror(source)
    return connectors


def _beside_the_mirror(source: BaseSource) -> Iterator[DeclaredConnector]:
    checkpoints, heartbeats = source.mirror.checkpoints, source.mirror.heartbeats
    if checkpoints is not None:
        config = checkpoint_config(source, checkpoints)
        yield DeclaredConnector(source, "checkpoints", "lake", config["name"], config)
    if heartbeats is not None:
        config = heartbeat_config(source, heartbeats)
        yield DeclaredConnector(source, "heartbeats", "lake", config["name"], config)
