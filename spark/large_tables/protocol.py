"""A table gets deletion vectors: its protocol names them, and its property lets all writers make them.

https://github.com/delta-io/delta/blob/master/PROTOCOL.md#table-features
"""

from __future__ import annotations

from typing import Any

from spark.delta.deletion_vectors import FEATURE, PROPERTY
from spark.delta.live_files import LiveTable

_LEGACY = ("appendOnly", "invariants")
"""What writer version 2 means, which a table with features has to list."""


def upgrade(live: LiveTable) -> list[dict[str, Any]]:
    """The actions that do it; none where it is done."""
    actions: list[dict[str, Any]] = []
    if FEATURE not in (live.protocol.get("writerFeatures") or ()):
        readers = [*(live.protocol.get("readerFeatures") or ()), FEATURE]
        writers = [*(live.protocol.get("writerFeatures") or _LEGACY), FEATURE]
        versions = {"minReaderVersion": 3, "minWriterVersion": 7}
        actions.append({"protocol": {**versions, "readerFeatures": readers, "writerFeatures": writers}})
    configuration = live.metadata.get("configuration") or {}
    if configuration.get(PROPERTY) != "true":
        actions.append({"metaData": {**live.metadata, "configuration": {**configuration, PROPERTY: "true"}}})
    return actions
