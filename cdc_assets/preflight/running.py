"""What only a running platform can tell of a source: its connector's place, and whether its server is still the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cdc_assets import names
from cdc_assets.connectors.capture import tables_in_list
from cdc_assets.errors import CdcAssetsError
from cdc_assets.identity.judge import Verdict
from cdc_assets.identity.look import refusal
from cdc_assets.preflight.finding import Finding
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import CapturedSource, Source

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform

# Connect is asked for minutes elsewhere; here a person waits.
_CONNECT_SECONDS = 5.0


def ask_connect(platform: Platform, source: CapturedSource) -> tuple[list[Any], list[Finding]]:
    """The connector's offsets; or none, with the one finding that stands for all that only a running platform can tell.

    Before the first `cdc up` there is no platform, and the database alone is in question.
    """
    try:
        platform.core_kafka(source.cluster), platform.lake_kafka()
        return platform.core_connect(source.cluster).within(_CONNECT_SECONDS).offsets(names.connector_name(source)), []
    except CdcAssetsError as error:
        message = f"are not asked, so what the connector has read, and its topics, are not looked at: {error}"
        return [], [Finding("topics", "warn", "Kafka and Connect", message, "./cdc up, or mend that, then cdc preflight")]


def tables_to_read(platform: Platform, source: CapturedSource) -> frozenset[TableId]:
    """The tables that a snapshot has yet to read: the connector is not there, or does not list them.

    All of them where Connect cannot be asked, as before the first `cdc up`.
    """
    if source.capture.snapshot == "no_data":
        return frozenset()
    try:
        connect = platform.core_connect(source.cluster).within(_CONNECT_SECONDS)
        running = connect.config(names.connector_name(source))
    except CdcAssetsError:
        running = None
    listed = () if running is None else tables_in_list(source, running)
    return frozenset(table.id for table in source.tables if table.name not in listed)


def patterns_taken_in(platform: Platform, source: CapturedSource) -> tuple[str, ...]:
    """Debezium's patterns of the tables that the source's connector reads, or one beside it: an onboarding takes them in.

    Whoever asks may have a registry of before that. None where Connect cannot be asked.
    """
    own = names.connector_name(source)
    try:
        connect = platform.core_connect(source.cluster).within(_CONNECT_SECONDS)
        configs = [connect.config(name) for name in (own, names.temporary(own))]
    except CdcAssetsError:
        return ()
    return tuple(each for config in configs if config for each in config.get("table.include.list", ".*").split(","))


def incarnation(source: Source, looked: Callable[[], tuple[Verdict, Finding]]) -> Finding:
    """What is not the server that was read fails; else the finding that came with the look."""
    try:
        found, finding = looked()
    except CdcAssetsError as error:
        return Finding("incarnation", "warn", "server", f"cannot be told: {error}", "mend that first")
    if found.kind == "other":
        return Finding("incarnation", "fail", "server", refusal(source, found), f"cdc repair source {source.name}")
    return finding
