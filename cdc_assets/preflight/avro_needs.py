"""What a source in Avro needs: a schema registry that answers and takes the login, and a worker that has the converter."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cdc_assets.connectors.record_converters import class_of_converter
from cdc_assets.errors import CdcAssetsError
from cdc_assets.preflight.finding import Finding
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.schema_registry import SchemaRegistry
from spark.envelopes.schema_registry import ask_types
from spark.errors import SchemaRegistryError

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform

CHECK = "schema_registry"
_CONNECT_SECONDS = 5.0
_MEND = "mend capture.schema_registry (url, user, password), or the registry"


def inspect_schema_registry(platform: Platform, source: CapturedSource) -> Iterator[Finding]:
    """Nothing for a source in JSON."""
    registry = source.capture.schema_registry
    if registry is None:
        return
    yield _answers(registry)
    try:
        yield _has_converter(platform, source)
    except CdcAssetsError as error:
        yield Finding("converter", "warn", "Connect", f"is not asked for its converters: {error}", "./cdc up, or mend that")


def _answers(registry: SchemaRegistry) -> Finding:
    try:
        types = ask_types(registry.address)
    except (SchemaRegistryError, CdcAssetsError) as error:
        return Finding(CHECK, "fail", "schema registry", f"cannot be asked: {error}", _MEND)
    if "AVRO" not in types:
        told = ", ".join(types) or "nothing"
        return Finding(CHECK, "fail", registry.place, f"keeps {told}, and no schemas of Avro", _MEND)
    return Finding(CHECK, "ok", registry.place, "answers, and keeps schemas of Avro")


def _has_converter(platform: Platform, source: CapturedSource) -> Finding:
    connect, wanted = platform.core_connect(source.cluster).within(_CONNECT_SECONDS), class_of_converter(source.capture)
    if wanted in {plugin.class_name for plugin in connect.plugins()}:
        return Finding("converter", "ok", f"Connect at {connect.url}", f"has {wanted}")
    mend = "./cdc down, then ./cdc up; a worker of your own: put it on its plugin path (docs/how-to/avro.md), and start it again"
    return Finding("converter", "fail", f"Connect at {connect.url}", f"has no converter {wanted}", mend)
