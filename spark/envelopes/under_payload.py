"""Documents of the JSON converter with `schemas.enable=true`: `{"schema": …, "payload": …}`, in keys and values alike.

The schema only repeats what the payload is, in four fifths of the bytes. The converter writes it first and writes the same
bytes for every record of one schema: a few records are looked at for what stands before their payload, and those that
begin with the same bytes are parsed from there on. Any other record is parsed as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from json import JSONDecodeError, JSONDecoder

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from spark.delta.topic_commits import SchemaIds
from spark.envelopes.envelope import Envelope

LOOKED_AT = 8
SCHEMA, PAYLOAD = '{"schema":', ',"payload":'


class UnderPayload(Envelope):
    """For an envelope whose document is under `payload`; `heads` are what values begin with up to there, `key_heads` keys."""

    root = "$.payload"

    def __init__(self, heads: Sequence[bytes] = (), key_heads: Sequence[bytes] = ()) -> None:
        self.heads, self.key_heads = heads, key_heads

    def prepare(self, records: DataFrame, registry: str | None, known: SchemaIds | None = None) -> Envelope:
        """With the heads of some of the records."""
        seen = records.select("value", "key").where(sf.col("value").isNotNull()).limit(LOOKED_AT).collect()
        return type(self)(*[_heads(row[part] for row in seen) for part in ("value", "key")])

    def text(self, value: Expression) -> Expression:
        """The document, without the schema where that is known."""
        return _without(self.heads, value)

    def key_text(self, key: Expression) -> Expression:
        """The same of a key."""
        return _without(self.key_heads, key)

    def wrap(self, payload: StructType) -> StructType:
        """The document that has these fields under `payload`."""
        return StructType([StructField("payload", payload)])

    def payload(self, document: Expression) -> Expression:
        """What is under `payload`; null where nothing is."""
        return document["payload"]


def _heads(seen: Iterable[bytearray | None]) -> list[bytes]:
    return sorted({head for data in seen if data is not None and (head := head_of(bytes(data)))})


def _without(heads: Sequence[bytes], data: Expression) -> Expression:
    short = data
    for head in heads:
        # In bytes: finding a place in a text counts its characters.
        rest = sf.concat(sf.lit(b'{"payload":'), sf.substring(data, len(head) + 1, 1 << 30))
        short = sf.when(sf.startswith(data, sf.lit(head)), rest).otherwise(short)
    return short.cast("string")


def head_of(value: bytes) -> bytes | None:
    """What stands before the payload; None where that is not the schema alone."""
    try:
        text = value.decode()
        _, end = JSONDecoder().raw_decode(text, len(SCHEMA)) if text.startswith(SCHEMA) else (None, 0)
    except (UnicodeDecodeError, JSONDecodeError):
        return None
    return text[: end + len(PAYLOAD)].encode() if text[end:].startswith(PAYLOAD) else None
