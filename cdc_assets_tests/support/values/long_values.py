"""A long value of every type of PostgreSQL that can have one: as Debezium sends it, and as silver has it.

Each is made by Python alone from a short part that is repeated, so that what is right is known without a database.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spark.specs import Column


@dataclass(frozen=True)
class LongValue:
    """`sent` is the field of the event, `held` what silver has."""

    sent: Any
    held: Any


def _same(part: str, between: str = "", ends: str = "") -> Callable[[int], LongValue]:
    def make(size: int) -> LongValue:
        text = ends[:1] + between.join([part] * max(1, size // len((part + between).encode()))) + ends[1:]
        return LongValue(text, text)

    return make


def _listed(element: Any) -> Callable[[int], LongValue]:
    def make(size: int) -> LongValue:
        found = [element] * max(1, size // (len(str(element)) + 1))
        return LongValue(found, found)

    return make


def _bytes(size: int) -> LongValue:
    value = bytes(range(256)) * max(1, size // 256)
    return LongValue(base64.b64encode(value).decode(), value)


def _bits(size: int) -> LongValue:
    """Debezium's bytes are the bits from the last to the first."""
    bits = "1101000110100001" * (bits_of(size) // 16)
    value = int(bits, 2).to_bytes(len(bits) // 8, "little")
    return LongValue(base64.b64encode(value).decode(), bits)


def bits_of(size: int) -> int:
    """How many bits a value of about so many bytes has: silver writes a letter for each."""
    return 16 * max(1, size // 16)


def _json(size: int) -> LongValue:
    text = json.dumps([{"a": [1, 2.5], "é": 'x"\\'}] * max(1, size // 32), ensure_ascii=False)
    return LongValue(text, text)


def _hstore(size: int) -> LongValue:
    text = json.dumps({f"k{n}": 'é \\"}x' for n in range(max(1, size // 24))})
    return LongValue(text, text)


def _shape(kind: int, *, closed: bool | None = None) -> Callable[[int], LongValue]:
    """Points as well-known binary, which silver has as they come."""

    def make(size: int) -> LongValue:
        count = max(3, size // 16)
        head = struct.pack("<BI", 1, kind) + (struct.pack("<I", 1) if kind == 3 else b"") + struct.pack("<I", count)
        wkb = head + struct.pack("<2d", 1.5, -2.0) * count
        more = {} if closed is None else {"extensions": {"closed": closed}}
        held = wkb if closed is None else {"wkb": wkb, "closed": closed}
        return LongValue({"wkb": base64.b64encode(wkb).decode(), "srid": None, **more}, held)

    return make


def _multirange(size: int) -> LongValue:
    text = "{" + ",".join(f"[{2 * n},{2 * n + 1})" for n in range(max(1, size // 16))) + "}"
    return LongValue(base64.b64encode(text.encode()).decode(), text)


LONG: dict[str, Callable[[int], LongValue]] = {
    "text": _same('é;x"\\'),
    "character varying": _same("éß"),
    "json": _json,
    "jsonb": _json,
    "xml": _same("<a>é</a>"),
    "hstore": _hstore,
    "bytea": _bytes,
    "bit": _bits,
    "numeric": _same("123456789"),
    "polygon": _shape(3),
    "path": _shape(2, closed=True),
    "tsvector": _same("'word':1", " "),
    "text[]": _listed('a "\\ b'),
    "integer[]": _listed(12345),
    "int4multirange": _multirange,
}
"""By type: a value of about so many bytes."""


def long_column(type_: str, size: int) -> Column:
    """The column for such a value; it is called `v`."""
    return Column("v", f"bit({bits_of(size)})" if type_ == "bit" else type_, kind="base" if type_ == "hstore" else "")
