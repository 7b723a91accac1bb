"""In which form a source's records are: what the jobs are told of each topic."""

from __future__ import annotations

from typing import TypedDict


class RecordForm(TypedDict):
    """What spark.specs.TopicRange and SilverSpec are told."""

    envelope: str
    connector: str
    schema_registry: str | None
