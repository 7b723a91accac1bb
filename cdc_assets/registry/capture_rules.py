"""What a source's kind and its owner do not take of the settings under `capture`."""

from __future__ import annotations

import re

from cdc_assets.kinds.kind import Kind
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
