"""How Arrow reads a column's JSON leaf without Spark: to the same value as its LakeType's `convert`, or not at all.

A form is the Arrow type as which the leaf is parsed, and the step from there to the lake's type. Whatever does not fit exactly
raises pa.ArrowInvalid: Spark then reads the batch, and says what is wrong with which record. A test reads the same leaves in both
ways, form by form (spark/values/test_arrow_forms.py).

    form          the leaf is                   the lake has
    number        a number                      smallint, int, bigint, float, double
    boolean       true or false                 boolean
    text          a text                        the same text
    digits        a text: any number            the same digits; NaN and infinities by name
    decimal       a text: a number              decimal(p,s)
    days          days since 1970               date
    micros        microseconds since 1970       timestamp_ntz; millis, in milliseconds
    instant       ISO 8601 with its zone        timestamp
    clock         microseconds since midnight   HH:MM:SS.ffffff; span, of any sign and length
    base64        bytes                         binary; base64_text, as text; unscaled, as a decimal; bits
    array of f    an array                      array<element>
    doubles n=p   an object with numbers at p   struct<n:double>, all of them there
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark.values.mariadb_types import LONGEST
from spark.values.postgresql_numbers import SPECIAL
from spark.values.postgresql_times import DAY_MICROS, FIRST_DAY, FIRST_MICRO, LAST_DAY, LAST_MICRO
from spark.values.postgresql_types import JAVA_NAME
from spark.values.type_rule import ARRAY, DOUBLES

_NUMBERS = {
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
}
_DECIMAL = re.compile(r"^decimal\((\d+),(\d+)\)$")


@dataclass(frozen=True)
class ArrowForm:
    """`leaf` is what the JSON leaf is parsed as, `lake` what `convert` makes of it.

    `convert` raises pa.ArrowInvalid, or Arrow's own ArrowInvalid.
    """

    leaf: pa.DataType
    lake: pa.DataType
    convert: Callable[[pa.Array], pa.Array]


def arrow_form(form: str, lake: str) -> ArrowForm | None:
    """The form of that name, for a lake type as Spark writes it; None: only Spark reads it."""
    if form.startswith(ARRAY):
        element = arrow_form(form.removeprefix(ARRAY), lake.removeprefix("array<").removesuffix(">"))
        return None if element is None else _array_of(element)
    if form == "number":
        kind = _NUMBERS[lake]
        return ArrowForm(kind, kind, _finite)
    if form in ("decimal", "unscaled"):
        kind = _decimal(lake)
        return ArrowForm(pa.string(), kind, (_decimals if form == "decimal" else _decimals_of_bytes)(kind))
    if form.startswith(DOUBLES):
        places = (pair.split("=") for pair in form.removeprefix(DOUBLES).split(","))
        return _doubles_of({name: path.split(".") for name, path in places})
    if form.startswith("bits "):
        return ArrowForm(pa.string(), pa.string(), _by_value(_bits(int(form.removeprefix("bits "))), pa.string()))
    return _FIXED.get(form)


def _decimal(lake: str) -> pa.DataType:
    match = _DECIMAL.match(lake)
    assert match is not None, lake
    return pa.decimal128(int(match[1]), int(match[2]))


def _same(values: pa.Array) -> pa.Array:
    return values


def _finite(values: pa.Array) -> pa.Array:
    if pa.types.is_floating(values.type):
        _need(pc.is_finite(values), "a number that is none of the type")
    return values


def _need(holds: pa.Array, what: str) -> None:
    """All are true or null."""
    if pc.any(pc.invert(holds)).as_py():
        raise pa.ArrowInvalid(what)


def _within(values: pa.Array, low: int, high: int, what: str) -> pa.Array:
    _need(pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high)), f"{what} beyond the lake's calendar")
    return values


def _decimals(kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    def convert(values: pa.Array) -> pa.Array:
        _need(pc.match_substring_regex(values, r"^-?\d+(\.\d+)?$"), "a text that is no plain number")
        return values.cast(kind)

    return convert


def _digits(values: pa.Array) -> pa.Array:
    if pc.any(pc.is_in(values, value_set=pa.array(list(SPECIAL)))).as_py():
        return pa.array([None if v is None else SPECIAL.get(v, v) for v in values.to_pylist()], pa.string())
    return values


def _micros(values: pa.Array) -> pa.Array:
    return _within(values, FIRST_MICRO, LAST_MICRO, "a time").cast(pa.timestamp("us"))


def _millis(values: pa.Array) -> pa.Array:
    return _micros(pc.multiply_checked(values, 1000))


def _instants(values: pa.Array) -> pa.Array:
    _need(pc.match_substring_regex(values, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)$"), "no moment")
    moments = values.cast(pa.timestamp("us", "UTC"))
    _within(moments.cast(pa.int64()), FIRST_MICRO, LAST_MICRO, "a moment")
    return moments


def _instants_but_epoch(values: pa.Array) -> pa.Array:
    _need(pc.not_equal(values, "1970-01-01T00:00:00Z"), "a zero date")
    return _instants(values)


def _by_value(convert: Callable[[Any], object], kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    def values_of(values: pa.Array) -> pa.Array:
        try:
            return pa.array([None if v is None else convert(v) for v in values.to_pylist()], kind)
        except (ValueError, binascii.Error, OverflowError) as error:
            raise pa.ArrowInvalid(str(error)) from error

    return values_of


def _clock(micros: int) -> str:
    if not 0 <= micros <= DAY_MICROS:
        raise pa.ArrowInvalid("a time of day beyond its day")
    return _hours(micros)


def _span(micros: int) -> str:
    if abs(micros) > LONGEST:
        raise pa.ArrowInvalid("a time beyond 838:59:59")
    return f"{'-' if micros < 0 else ''}{_hours(abs(micros))}"


def _hours(micros: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _decimals_of_bytes(kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    from decimal import Decimal

    def number(text: str) -> Decimal:
        raw = _bytes(text)
        if not 0 < len(raw) <= 16:
            raise pa.ArrowInvalid("a number of no or too many bytes")
        return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-kind.scale)

    return _by_value(number, kind)


def _bits(length: int) -> Callable[[str], str]:
    def text(value: str) -> str:
        raw = _bytes(value)
        bits = f"{int.from_bytes(raw, 'little'):b}" if raw else "0"
        if len(bits) > length:
            raise pa.ArrowInvalid("more bits than the type has")
        return bits.zfill(length)

    return text


def _but(refused: str) -> Callable[[pa.Array], pa.Array]:
    """Texts, none of which matches."""

    def convert(values: pa.Array) -> pa.Array:
        _need(pc.invert(pc.match_substring_regex(values, refused)), f"a text like {refused}")
        return values

    return convert


def _array_of(element: ArrowForm) -> ArrowForm:
    """Not an array of nothing but NULLs, nor one with Java's name of an array in it: as spark.values.postgresql_types has it."""

    def convert(values: pa.Array) -> pa.Array:
        elements = values.values
        if pa.types.is_string(elements.type):
            _need(pc.invert(pc.match_substring_regex(elements, JAVA_NAME)), "an array of several dimensions")
        for array in values.to_pylist():
            if array and all(item is None for item in array):
                raise pa.ArrowInvalid("an array of nothing but NULLs")
        return pa.ListArray.from_arrays(values.offsets, element.convert(elements), mask=pc.is_null(values))

    return ArrowForm(pa.list_(element.leaf), pa.list_(element.lake), convert)


def _doubles_of(paths: dict[str, list[str]]) -> ArrowForm:
    """Of an object, whatever else is in it, the numbers at these paths of names."""
    nested: dict[str, Any] = {}
    for path in paths.values():
        inner = nested
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = pa.float64()
    lake = pa.struct([(name, pa.float64()) for name in paths])

    def convert(values: pa.Array) -> pa.Array:
        whole = pc.is_valid(values)
        columns = [pc.struct_field(values, path) for path in paths.values()]
        for numbers in columns:
            _need(pc.or_(pc.invert(whole), pc.is_finite(numbers).fill_null(False)), "an object that lacks a number")
        return pa.StructArray.from_arrays(columns, fields=list(lake), mask=pc.invert(whole))

    return ArrowForm(_struct(nested), lake, convert)


def _struct(nested: dict[str, Any]) -> pa.DataType:
    return pa.struct([(name, _struct(inner) if isinstance(inner, dict) else inner) for name, inner in nested.items()])


_TEXT = pa.string()
_FIXED: dict[str, ArrowForm] = {
    "boolean": ArrowForm(pa.bool_(), pa.bool_(), _same),
    "text": ArrowForm(_TEXT, _TEXT, _same),
    "digits": ArrowForm(_TEXT, _TEXT, _digits),
    "days": ArrowForm(pa.int32(), pa.date32(), lambda days: _within(days, FIRST_DAY, LAST_DAY, "a day").cast(pa.date32())),
    "micros": ArrowForm(pa.int64(), pa.timestamp("us"), _micros),
    "millis": ArrowForm(pa.int64(), pa.timestamp("us"), _millis),
    "instant": ArrowForm(_TEXT, pa.timestamp("us", "UTC"), _instants),
    "instant but epoch": ArrowForm(_TEXT, pa.timestamp("us", "UTC"), _instants_but_epoch),
    "clock": ArrowForm(pa.int64(), _TEXT, _by_value(_clock, _TEXT)),
    "span": ArrowForm(pa.int64(), _TEXT, _by_value(_span, _TEXT)),
    "interval": ArrowForm(_TEXT, _TEXT, _but("^P0Y0M0DT0H0M0S$")),
    "uuid but 00": ArrowForm(_TEXT, _TEXT, _but("^00")),
    "base64": ArrowForm(_TEXT, pa.binary(), _by_value(_bytes, pa.binary())),
    "base64_text": ArrowForm(_TEXT, _TEXT, _by_value(lambda text: _bytes(text).decode("utf-8"), _TEXT)),
    "year": ArrowForm(pa.int32(), pa.int32(), lambda years: pc.if_else(pc.equal(years, 1900), pa.scalar(0, pa.int32()), years)),
}
