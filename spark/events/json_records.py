"""Records that are JSON documents: where in them the payload is, and that nothing of them becomes another value in silence.

Documents of the JSON converter with `schemas.enable=true` are `{"schema": …, "payload": …}`, in keys and values alike. The schema
only repeats what the payload is, in four fifths of the bytes. The converter writes it first and writes the same
bytes for every record of one schema: a few records are looked at for what stands before their payload, and those that
begin with the same bytes are parsed from there on. Any other record is parsed as a whole.

What our connectors write is UTF-8, one value, without half characters, and its numbers are doubles. Others write what they
like, and Spark's parser takes it: bytes that are no UTF-8 and halves of a surrogate pair become U+FFFD or `?`, so that two
keys are one, what follows the value is dropped, and a long number is rounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from json import JSONDecodeError, JSONDecoder

from pyspark.sql import Column as Expression
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from spark.events.envelope import Envelope
from spark.table.topic_commits import SchemaIds
from spark.values.postgresql_numbers import MARK, mark_long_numbers


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
        return type(self)(*[_heads(row[column] for row in seen) for column in ("value", "key")])

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


# No escape of half a pair (RFC 8259, 8.2), and none of MARK.
_WHOLE_CHARACTERS = (
    r"(?s)^(?:[^\\]++|\\[^u]|\\u(?![dD][89a-fA-F]|[fF]{4})[0-9a-fA-F]{4}"
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})*+$"
)
_QUOTED_TWICE = r"""(?s)^(?:[^"']++|"(?:[^"\\]++|\\.)*+")*+$"""


def read_foreign(events: DataFrame) -> DataFrame:
    """Bronze's events with `foreign_fault`, why a value is not to be read (or null), and numbers marked in key and value.

    A key that is not to be read is null.
    """
    key, value = sf.col("key"), sf.col("value")
    return events.withColumns(
        {
            "foreign_fault": sf.when(value.isNotNull(), fault(value.cast("string"))),
            "value": mark_long_numbers(value.cast("string")).cast("binary"),
            "key": sf.when(fault(key.cast("string")).isNull(), mark_long_numbers(key.cast("string")).cast("binary")),
        }
    )


def fault(text: Expression) -> Expression:
    """Why a text is not to be read as JSON; null where it is one value as the rules have it, and nothing else."""
    no_utf8 = ~sf.is_valid_utf8(text)
    halves = sf.contains(text, sf.lit("\\u")) & ~text.rlike(_WHOLE_CHARACTERS)
    # Spark's parser takes texts between apostrophes too.
    odd_quotes = sf.contains(text, sf.lit("'")) & ~text.rlike(_QUOTED_TWICE)
    # As the first of two in an array: what comes second is then our own, and no text holds its own digest.
    digest = sf.md5(text)
    second = sf.get_json_object(sf.concat(sf.lit("["), text, sf.lit(',"'), digest, sf.lit('"]')), "$[1]")
    return (
        sf.when(no_utf8, "its JSON is no UTF-8")
        .when(halves | sf.contains(text, sf.lit(MARK)), "its JSON has half a surrogate pair, or U+FFFF")
        .when(odd_quotes | ~second.eqNullSafe(digest), "its JSON is not one value with nothing behind it")
    )
