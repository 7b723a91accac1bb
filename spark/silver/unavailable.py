"""What Debezium's PostgreSQL connector sends for a TOASTed value that an UPDATE did not change.

Observed on Debezium 3.7.0.Final with PostgreSQL 18 and REPLICA IDENTITY DEFAULT (`unavailable.value.placeholder`
= P, binary.handling.mode=bytes, hstore.handling.mode=json):

    text, varchar, json, jsonb, numeric, tsvector    P
    bytea                                            P's bytes in base64
    hstore                                           {"P":"P"}
    text[], varchar[], json[], jsonb[]               ["P"]
    bytea[]                                          [P's bytes in base64]
    integer[], bigint[], date[]                      the bytes of P as numbers
    uuid[]                                           [the name-based UUID of P]
    any other array, bit, path, polygon, multiranges,
    composites and whatever comes as bytes of text   null: not to be told from a real NULL (spark.types tells which)

In a NOT NULL column such a null stops the connector.
With REPLICA IDENTITY FULL the old value is sent in all cases. (binary.handling.mode=base64 or hex sends null for
bytea as well: that is why the connector uses `bytes`, which JSON carries as base64 all the same.)
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid

from spark.specs import Column
from spark.types.type_rules import lake_type


def forms(placeholder: str) -> tuple[str, ...]:
    """Every JSON leaf, as text, that means "unchanged" under this placeholder."""
    raw = placeholder.encode()
    binary = base64.b64encode(raw).decode()
    # java.util.UUID.nameUUIDFromBytes: MD5 of the bytes alone, without a name space.
    named = str(uuid.UUID(bytes=hashlib.md5(raw, usedforsecurity=False).digest(), version=3))
    shapes = ([placeholder], [binary], list(raw), [named], {placeholder: placeholder})
    return (placeholder, binary, *(json.dumps(shape, separators=(",", ":"), ensure_ascii=False) for shape in shapes))


def null_may_mean_unchanged(column: Column) -> bool:
    """Whether Debezium sends NULL for an unchanged value of this type, so that NULL alone says nothing."""
    return lake_type(column).null_if_unchanged
