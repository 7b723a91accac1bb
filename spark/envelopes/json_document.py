"""Records that are JSON documents: where in them the payload is."""

from __future__ import annotations

from pyspark.sql import Column as Expression
from pyspark.sql.types import StructType

from spark.envelopes.envelope import Envelope


class JsonDocument(Envelope):
    """The payload is the whole document; UnderPayload says otherwise."""

    root = "$"

    def text(self, value: Expression) -> Expression:
        """A value's document, to be parsed."""
        return value.cast("string")

    def key_text(self, key: Expression) -> Expression:
        """The JSON text of a record's key."""
        return key.cast("string")

    def wrap(self, payload: StructType) -> StructType:
        """The document that has these fields in its payload."""
        return payload

    def payload(self, document: Expression) -> Expression:
        """The payload of a document."""
        return document
