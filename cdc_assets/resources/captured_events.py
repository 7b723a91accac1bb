"""What the records of a connector of ours say, in JSON or in Avro: its tables' topics, its markers, its notifications.

In Avro numbers come as their digits; JSON has them as numbers. Both are read of any source that declares a registry: its topics
may hold records of a time before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.topic_rows.avro import AvroDocuments
from cdc_assets.resources.topic_rows.messages import UnreadableRecordError

_AVRO = b"\0"
ReadEvent = Callable[[bytes | None], dict[str, Any]]
"""A record's value, or its key, as its fields; empty where it has none. ValueError: it is no event."""


def read_json_event(raw: bytes | None) -> dict[str, Any]:
    """Of a connector that writes JSON, with its schema beside it or without.

    Raises:
        ValueError: it is no JSON object.
    """
    if raw is None:
        return {}
    said = json.loads(raw)
    found = said.get("payload", said) if isinstance(said, dict) else said
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ValueError(f"no fields: {raw[:80]!r}")
    return found


def event_reader(source: BaseSource, columns: Sequence[str] = ()) -> ReadEvent:
    """For the source's topics; `columns` of a table come under their own names.

    Raises:
        MissingAddressError, MissingSecretError: its registry cannot be named. The reader raises DatabaseError where the registry
            does not answer.
    """
    captured = source.captured
    if captured is None or captured.capture.schema_registry is None:
        return read_json_event
    documents = AvroDocuments(captured.capture.schema_registry.address)

    def read(raw: bytes | None) -> dict[str, Any]:
        if raw is None or not raw.startswith(_AVRO):
            return read_json_event(raw)
        try:
            return documents(raw, columns)
        except UnreadableRecordError as error:
            raise ValueError(f"no record of a schema that the registry knows: {raw[:16]!r}") from error

    return read
