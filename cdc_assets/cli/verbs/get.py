"""`cdc get` and `cdc describe`: connectors, tables, topics, mirrors; what has failed comes first."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any

import typer

from cdc_assets.cli.declared_sources import EVERY_SOURCE, ChosenSources, complete_connector, complete_source, tell_experimental
from cdc_assets.cli.output_formats import Format, Output, print_document, print_rows
from cdc_assets.cli.verb_frame import verb
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import BaseSource

NARROW = {
    "connectors": ("name", "cluster", "state", "tasks", "source", "trace"),
    "tables": ("source", "table", "mirror_lag", "bronze_lag", "silver_lag", "silver_rows", "history_lag", "error"),
    "topics": ("topic", "cluster", "source", "table", "partitions", "begin", "end"),
    "mirrors": ("source", "table", "state", "copy", "lag", "topic", "mirrored_topic", "repair"),
}


class Listable(str, Enum):
    """What there is to get."""

    connectors = "connectors"
    tables = "tables"
    topics = "topics"
    mirrors = "mirrors"


@verb()
def get(
    kind: Annotated[Listable, typer.Argument(help="connectors, tables, topics or mirrors")],
    platform: Platform,
    sources: Annotated[
        ChosenSources, typer.Argument(help="Of these sources; default all.", autocompletion=complete_source)
    ] = EVERY_SOURCE,
    output: Output = Format.text,
) -> None:
    """List what there is, failed first. Connectors include those that the registry does not know (foreign)."""
    tell_experimental(sources)
    rows = _READERS[kind](platform, sources)
    if sources.are_named and kind is Listable.connectors:
        rows = [row for row in rows if set(row["source"].split(", ")) & {source.name for source in sources}]
    print_rows(rows, output, narrow=NARROW[kind.value])


@verb()
def describe(
    platform: Platform,
    what: Annotated[str, typer.Argument(help="connector", autocompletion=lambda: ["connector"])],
    name: Annotated[str, typer.Argument(help="Its name.", autocompletion=complete_connector)],
    output: Output = Format.yaml,
) -> None:
    """Show all that Connect knows of one connector: config without secrets, states, offsets, topics."""
    if what not in ("connector", "connectors"):
        raise typer.BadParameter(f"{what}: only connectors can be described; cdc describe connector {name}")
    from cdc_assets.capture.connectors.connector_inventory import locate
    from cdc_assets.clients.connector_states import mask_config

    connect = locate(platform, name)
    config, status = connect.config(name) or {}, connect.status(name)
    document = {
        "name": name,
        "connect": connect.url,
        "state": status.state if status else "UNASSIGNED",
        "tasks": [vars(task) for task in (status.details if status else ())],
        "trace": list(status.trace) if status else [],
        "config": mask_config(config, connect.password_keys(config.get("connector.class", "none"))),
        "offsets": connect.offsets(name),
        "topics": connect.topics(name),
    }
    print_document(document, output)


def _connectors(platform: Platform, sources: Sequence[BaseSource]) -> list[dict[str, Any]]:
    from cdc_assets.capture.connectors.connector_inventory import connector_rows

    return connector_rows(platform, sources)


def _tables(platform: Platform, sources: Sequence[BaseSource]) -> list[dict[str, Any]]:
    from cdc_assets.proof.chain_status import chain_status

    source_names = {source.name for source in sources}
    rows = [chain.to_json() for chain in chain_status(platform) if chain.source in source_names]
    return sorted(
        rows,
        key=lambda row: (not row["error"], -max(row["silver_lag"] or 0, row["history_lag"] or 0), row["source"], row["table"]),
    )


def _topics(platform: Platform, sources: Sequence[BaseSource]) -> list[dict[str, Any]]:
    rows = []
    for source in sources:
        pairs = [("lake", platform.lake_kafka(), names.lake_topic)]
        pairs += [(source.cluster, platform.core_kafka(source.cluster), names.topic)] if names.is_mirrored(source) else []
        for cluster, kafka, named in reversed(pairs):
            states = kafka.states([named(source, table) for table in source.tables])
            for table in source.tables:
                state = states.get(named(source, table))
                rows.append(
                    {
                        "topic": named(source, table),
                        "cluster": cluster,
                        "source": source.name,
                        "table": names.table_name(table),
                        "partitions": len(state.ranges) if state else None,
                        "begin": sum(begin for begin, _ in state.ranges.values()) if state else "missing",
                        "end": sum(state.ends.values()) if state else None,
                        "topic_id": state.topic_id if state else None,
                    }
                )
    return sorted(rows, key=lambda row: (row["partitions"] is not None, row["cluster"], row["topic"]))


def _mirrors(platform: Platform, sources: Sequence[BaseSource]) -> list[dict[str, Any]]:
    from cdc_assets.capture.mirror_losses import mirror_states

    mirrored = [source for source in sources if names.is_mirrored(source)]
    copies = {(mirror.source, mirror.table): mirror for source in mirrored for mirror in mirror_states(Chain(platform, source))}
    status = {s.name: platform.lake_connect().status(names.mirror_connector_name(s)) for s in mirrored}
    tables = {(source.name, names.table_name(table)): (source, table) for source in mirrored for table in source.tables}
    rows = []
    for row in _tables(platform, list(mirrored)):
        source, table = tables[row["source"], row["table"]]
        connector, copy = status[source.name], copies[source.name, row["table"]]
        rows.append(
            {
                "source": source.name,
                "table": row["table"],
                "state": "ABSENT" if connector is None else connector.worst,
                "copy": copy.state,
                "lag": row["mirror_lag"],
                "topic": names.topic(source, table),
                "mirrored_topic": names.lake_topic(source, table),
                "connector": names.mirror_connector_name(source),
                "repair": copy.repair,
                "findings": [finding.message for finding in copy.findings],
                "error": row["error"],
            }
        )
    return sorted(
        rows, key=lambda row: (not row["repair"], row["state"] == "RUNNING", -(row["lag"] or 0), row["source"], row["table"])
    )


_READERS = {Listable.connectors: _connectors, Listable.tables: _tables, Listable.topics: _topics, Listable.mirrors: _mirrors}
