"""What a source's kind and its owner do not take of the settings under `capture`."""

from __future__ import annotations

import re

from cdc_assets.kinds.kind import Kind
from cdc_assets.registry.schema_registry import apicurio_root
from cdc_assets.registry.source_settings import Capture

_OF_SOME_KINDS = ("publication", "schema_history", "server_id", "signals", "slot")
_OF_KUBERNETES = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


def refuse_capture(capture: Capture, kind: Kind, managed_by: str) -> None:
    """Settings that the kind has not, and a connector's name that no manifest can have.

    Raises:
        ValueError: naming the key.
    """
    foreign = [f"capture.{name}" for name in _OF_SOME_KINDS if name not in kind.settings and getattr(capture, name) is not None]
    if foreign:
        raise ValueError(f"{', '.join(foreign)}: a source of kind {kind.name} has no such setting")
    if managed_by == "gitops" and capture.connector and not _OF_KUBERNETES.fullmatch(capture.connector):
        raise ValueError(
            f"capture.connector {capture.connector}: managed_by: gitops names a connector as its KafkaConnector, and Kubernetes "
            "takes lower-case letters, digits, - and . only; declare managed_by: cdc, or take the name out"
        )
    _refuse_envelope(capture, kind)


def _refuse_envelope(capture: Capture, kind: Kind) -> None:
    if not capture.in_avro:
        if beside := sorted({"schema_registry", "converter"} & capture.model_fields_set):
            told = ", ".join(f"capture.{name}" for name in beside)
            raise ValueError(
                f"{told}: records in {capture.envelope} have no schema in a registry; declare envelope: debezium-avro"
            )
        return
    if kind.envelope:
        raise ValueError(f"capture.envelope: the connector of kind {kind.name} writes {kind.envelope} only")
    registry = capture.schema_registry
    if registry is None:
        raise ValueError(
            "capture.envelope: debezium-avro needs capture.schema_registry: {url: …}, "
            "with user and password where it asks for a login"
        )
    if registry.has_login_in_url:
        raise ValueError(
            "capture.schema_registry.url: a login in it would lie in the connector's config in clear; declare user, and password "
            "as a secret"
        )
    if capture.converter == "apicurio" and isinstance(registry.url, str) and not apicurio_root(registry.url):
        raise ValueError(
            f"capture.schema_registry.url: {registry.url} is not where Apicurio answers as Confluent's registry does "
            "(http://host:port/apis/ccompat/v7), and Apicurio's converter writes to Apicurio alone; for another registry: "
            "capture.converter: confluent"
        )
