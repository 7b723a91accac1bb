"""The capturing connector's config, by the kind of the source's database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from cdc_assets import names
from cdc_assets.connectors.debezium_common import SIGNALS, exact_pattern, table_pattern
from cdc_assets.connectors.kept_settings import is_listed, topic_routes, with_settings, with_topics
from cdc_assets.kinds import kind_of
from cdc_assets.registry.identifiers import parse_table
from cdc_assets.registry.models import BaseSource, CapturedSource


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
    part = kind_of(source).connector
    assert part is not None, source.kind_name
    config: dict[str, str] = part.load()(source)
    return config


def _with_tables_of_ours(source: CapturedSource, config: dict[str, str]) -> dict[str, str]:
    """Captured like tables, but no assets: `cdc reconcile` waits for the marker's rows (reconcile.paged_source), and `--heal`
    writes signals (reconcile.key_signals)."""
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
    wanted = {*tables_in_list(source, running), *more}
    return source.model_copy(update={"tables": tuple(table for table in source.tables if table.name in wanted)})


def not_listed(source: BaseSource, running: Mapping[str, str] | None) -> str:
    """The declared tables that a running connector's list does not have, as `cdc onboard` takes them; empty without one."""
    if running is None:
        return ""
    there = tables_in_list(source, running)
    return " ".join(table.name for table in source.tables if table.name not in there)
