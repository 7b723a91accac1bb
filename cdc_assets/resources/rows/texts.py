"""A value as its driver gives it, in the canonical text that Spark writes of silver's column (spark.canonical).

By the declared type, which is written as PostgreSQL would write it. Types that are not here are not compared: their text in the
lake is Debezium's own (json, intervals), or nobody has shown that both sides write the same.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Context, Decimal
from typing import Any

from cdc_assets.errors import DatabaseError
from cdc_assets.quantity import quantity
from spark.dialects.hashing import measure

Write = Callable[[Any], str]
MAX_DIGITS = 38
NOT_WRITTEN = "its text is not known to be the same in the lake and from this database's driver"


def writer(source_type: str) -> Write | None:
    """How values of the type are written; None where they are not compared. NULL is not its matter."""
    from spark.types.rule import SourceType

    found = SourceType.parse(source_type)
    if found is None or found.array:
        return None
    if found.name == "numeric":
        precision, scale = (*found.args, 0, 0)[:2]
        return (lambda value: _decimal(value, scale)) if 0 <= scale <= precision <= MAX_DIGITS and found.args else None
    if found.name == "bit" and (digits := (found.args or (1,))[0]) > 1:
        return lambda value: _digits(value, digits)
    return _WRITERS.get(found.name)


def parse_key(text: str, types: Sequence[str]) -> tuple[Any, ...]:
    """A key's canonical text as values to ask for.

    Raises:
        DatabaseError: the key has a type whose text cannot be read back.
    """
    from spark.types.rule import SourceType

    values = []
    raw = text.encode()
    for source_type in types:
        found = SourceType.parse(source_type)
        name = found.name if found else source_type
        if name in _MEASURED:
            size, _, raw = raw.partition(b":")
            value, raw = raw[: int(size)], raw[int(size) + 1 :]
        else:
            value, _, raw = raw.partition(b";")
        if name not in _READERS:
            raise DatabaseError(f"a key of type {source_type} cannot be asked for again: two steps read keys again")
        try:
            values.append(_READERS[name](value.decode()))
        except (ValueError, ArithmeticError) as error:
            raise DatabaseError(f"the key {text} cannot be asked for again: {error}") from error
    return tuple(values)


def _decimal(value: Any, scale: int) -> str:
    found = Decimal(str(value))
    if found != (exact := found.quantize(Decimal(1).scaleb(-scale), context=Context(prec=2 * MAX_DIGITS))):
        raise DatabaseError(f"a value has more than the declared {quantity(scale, 'digit')} after the point")
    return f"{exact:f}" if exact else f"{abs(exact):f}"


def _whole(value: Any) -> str:
    """A length of time, which MySQL's TIME is, is one of microseconds."""
    return str(value // timedelta(microseconds=1) if isinstance(value, timedelta) else int(value))


def _digits(value: bytes, count: int) -> str:
    """Bits, as many as declared."""
    found = f"{int.from_bytes(value, 'big'):b}".zfill(count)
    if len(found) > count:
        raise DatabaseError(f"{quantity(len(found), 'bit')} are more than the declared {count}")
    return found


def _boolean(value: Any) -> str:
    return "true" if (value != b"\0" if isinstance(value, bytes) else value) else "false"


def _text(value: Any) -> str:
    if isinstance(value, (dict, list, bytes)):
        raise DatabaseError(f"a value declared as text is {type(value).__name__} in the database")
    return measure(str(value))


def _date(value: date | str) -> str:
    """A text is what no calendar has, such as MySQL's 0000-00-00."""
    if isinstance(value, str):
        return value
    return (value.date() if isinstance(value, datetime) else value).isoformat()


def _timestamp(value: datetime | str) -> str:
    """Without zone, and the digits of a second without trailing zeros."""
    found = value if isinstance(value, str) else value.replace(tzinfo=None).isoformat(" ")
    return found.rstrip("0") if "." in found else found


def _moment(value: datetime | str) -> str:
    return _timestamp(value.astimezone(timezone.utc) if isinstance(value, datetime) and value.tzinfo else value)


def _time(value: time | timedelta) -> str:
    """MySQL's goes from -838:59:59 to 838:59:59."""
    if not isinstance(value, timedelta):
        return value.isoformat("microseconds")
    micros = abs(value) // timedelta(microseconds=1)
    seconds = micros // 1_000_000
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{micros % 1_000_000:06d}"
    return f"-{clock}" if value < timedelta() else clock


def _bits(form: str) -> Write:
    """Of NaN those of the one that Java has, whatever its sign was."""

    def write(value: Any) -> str:
        found = float(value)
        return struct.pack(form, abs(math.nan) if math.isnan(found) else found).hex().upper()

    return write


_MEASURED = ("text", "character varying", "character", "uuid")
_WRITERS: dict[str, Write] = {
    **dict.fromkeys(("smallint", "integer", "bigint", "bigint unsigned"), _whole),
    **dict.fromkeys(_MEASURED, _text),
    **dict.fromkeys(("boolean", "bit"), _boolean),
    "real": _bits(">f"),
    "double precision": _bits(">d"),
    "bytea": lambda value: hashlib.md5(bytes(value)).hexdigest(),
    "date": _date,
    "timestamp without time zone": _timestamp,
    "timestamp with time zone": _moment,
    "time without time zone": _time,
}
_READERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("smallint", "integer", "bigint", "bigint unsigned"), int),
    **dict.fromkeys(_MEASURED, str),
    "numeric": Decimal,
    "date": date.fromisoformat,
    "timestamp without time zone": datetime.fromisoformat,
}
