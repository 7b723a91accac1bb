"""Documents of the JSON converter with `schemas.enable=true`: `{"schema": …, "payload": …}`, in keys and values alike.

The schema only repeats what the payload is; it is skipped, not read.
"""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql.types import StructField, StructType


class UnderPayload:
    """For an envelope whose document is under `payload`."""

    root = "$.payload"

    def wrapped(self, payload: StructType) -> StructType:
        """The document that has these fields under `payload`."""
        return StructType([StructField("payload", payload)])

    def payload(self, document: Expression) -> Expression:
        """What is under `payload`; null where nothing is."""
        return document["payload"]
