"""JSON texts of a topic's messages as the Python values that `resources.rows.texts` writes canonically.

By the declared type and the forms that the topic's writer uses (`values`). Types that are not here are not compared.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark.types.rule import SourceType

Read = Callable[[str], Any]
_EPOCH = datetime(1970, 1, 1)
_WHOLE, _DIGITS = re.compile(r"-?\d+"), re.compile(r"-?\d+(\.\d+)?")
_DIGIT, _NOT_ZERO = re.compile(r"\d"), re.compile(r"\s*[-+]?[0.]*[1-9]")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_CLOCK = r"\d\d:\d\d(:\d\d(\.\d{1,6}0*)?)?"
_MOMENT = re.compile(rf"\d{{4}}-\d\d-\d\d[T ]{_CLOCK}Z?")


class UnfitValueError(ValueError):
    """A text that is no value of its column's type."""


def reader(source_type: str, modes: str, *, written: bool) -> Read | None:
    """How texts of a column are read; `written`: dates and times come as people write them. None: they are not compared."""
    from spark.types.rule import SourceType

    found = SourceType.parse(source_type, modes=modes)
    if found is None or found.array:
        return None
    if found.name in _PLAIN:
        return _PLAIN[found.name]
    if found.name == "numeric" and found.args:
        scale = (*found.args, 0)[1]
        return (lambda text: _unscale(text, scale)) if found.modes.decimal == "precise" else _decimal
    if found.name in ("date", "timestamp without time zone", "time without time zone"):
        return _time_reader(found, written=written)
    if found.name == "bytea" and found.modes.binary in ("bytes", "base64"):
        return lambda text: base64.b64decode(text, validate=True)
    return None


def value(read: Read, text: Any) -> Any:
    """NULL stays NULL.

    Raises:
        UnfitValueError: it is no value of the type.
    """
    if text is None:
        return None
    plain = {True: "true", False: "false"}.get(text, text) if isinstance(text, bool) else text
    if isinstance(plain, float) and read is _float:
        return plain
    if not isinstance(plain, str):
        raise UnfitValueError
    try:
        return read(plain)
    except (ValueError, ArithmeticError) as error:
        raise UnfitValueError from error


def _whole(text: str) -> int:
    if not _WHOLE.fullmatch(text):
        raise UnfitValueError
    return int(text)


def _decimal(text: str) -> Decimal:
    if not _DIGITS.fullmatch(text):
        raise UnfitValueError
    return Decimal(text)


def _unscale(text: str, scale: int) -> Decimal:
    return Decimal(int.from_bytes(base64.b64decode(text, validate=True), "big", signed=True)).scaleb(-scale)


def _float(text: str) -> float:
    """Within a double: PostgreSQL refuses 1e400 and 1e-400, and so does silver."""
    found = float(text)
    if (found in (float("inf"), float("-inf")) and _DIGIT.search(text)) or (found == 0 and _NOT_ZERO.match(text)):
        raise UnfitValueError
    return found


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text] if text in ("true", "false") else _refuse()


def _refuse() -> bool:
    raise UnfitValueError


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(_pad_time(text)).astimezone(timezone.utc)


def _pad_time(text: str) -> str:
    """As Python 3.10 reads it: a zone in digits, six digits of a second or none."""
    text = text[:-1] + "+00:00" if text.endswith("Z") else text
    return re.sub(r"\.(\d{1,6})0*(?=$|[+-])", lambda found: f".{found[1]:0<6}", text)


def _time_reader(source: SourceType, *, written: bool) -> Read:
    numbers = _in_numbers(source)

    def read(text: str) -> Any:
        if written and source.name == "date" and _DAY.fullmatch(text):
            return date.fromisoformat(text)
        if written and source.name.startswith("timestamp") and _MOMENT.fullmatch(text):
            return datetime.fromisoformat(_pad_time(text.rstrip("Z")))
        if written and source.name.startswith("time ") and re.fullmatch(_CLOCK, text):
            return time.fromisoformat(_pad_time(text))
        return numbers(_whole(text))

    return read


def _in_numbers(source: SourceType) -> Callable[[int], Any]:
    """Days, or parts of a second by Debezium's `time.precision.mode`."""
    if source.name == "date":
        return lambda count: date(1970, 1, 1) + timedelta(days=count)
    mode, digits, clock = source.modes.temporal, source.args[0] if source.args else 6, source.name.startswith("time ")
    adapted = mode == "adaptive" or (mode == "adaptive_time_microseconds" and not clock)
    if mode == "isostring":
        return lambda count: _refuse()

    def micros(count: int) -> int:
        if mode == "connect" or (adapted and digits <= 3):
            return count * 1000
        if mode == "nanoseconds":
            return count // 1000 if count % 1000 == 0 else int(_refuse())
        return count

    if clock:
        return lambda count: timedelta(microseconds=micros(count))
    return lambda count: _EPOCH + timedelta(microseconds=micros(count))


_PLAIN: dict[str, Read] = {
    **dict.fromkeys(("smallint", "integer", "bigint"), _whole),
    **dict.fromkeys(("text", "character varying", "character", "uuid"), str),
    **dict.fromkeys(("real", "double precision"), _float),
    "boolean": _boolean,
    "timestamp with time zone": _moment,
}
