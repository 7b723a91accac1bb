"""Bronze rows as JSON lines: lossless, and the same bytes each time.

Keys, values and headers are text where they are valid UTF-8 and base64 otherwise (`key_base64` instead of `key`), so
that a restore gives back the same bytes. Fields are sorted; `timestamp` is in milliseconds, as Kafka has it, `source_ts` in
microseconds. `snapshot`, `source_ts` and `tx_id` are not in the lines of earlier versions (manifests of format 1).

With `values: json` a value that is a JSON object stands in its line to the letter, and `size` says how many bytes it has. Any
other one is `value_text` or `value_base64`, so that `value` is an object in every line, or null.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

from cdc_assets.backup.object_layout import ObjectLayout

_NAME = '"value"'
_encoded = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


class BronzeRow(NamedTuple):
    """A record as bronze holds it; times as in a line. A tuple, because millions are made of pyarrow's columns."""

    partition: int
    offset: int
    timestamp: int | None
    op: str | None
    position: str | None
    headers: Any
    key: bytes | None
    value: bytes | None
    tx_id: str | None = None
    source_ts: int | None = None
    snapshot: str | None = None


class Lines:
    """Makes the lines of one topic. Put together by hand: a dictionary per record took twice as long."""

    def __init__(self, topic: str, layout: ObjectLayout | None = None) -> None:
        self.topic = _encoded(topic)
        self.layout = layout or ObjectLayout()
        # A connector writes the same headers with every record.
        self._last_headers: tuple[Any, str] = ((), "[]")

    def line(self, row: BronzeRow, *, is_json: bool = False) -> bytes:
        """One record as a line of JSON in UTF-8, keys in the order of the alphabet; `is_json`: its value stands there itself."""
        partition, offset, timestamp, op, position, headers, key, value, tx_id, source_ts, snapshot = row
        size = f'"size":{len(value)},' if is_json and value is not None else ""
        said = f'"value":{value.decode()}' if is_json and value is not None else self._value(value)
        return (
            f'{{"headers":{self.headers(headers)},{_text_or_base64("key", key)},"offset":{offset},"op":{_text(op)},'
            f'"partition":{partition},"position":{_text(position)},{size}"snapshot":{_text(snapshot)},'
            f'"source_ts":{"null" if source_ts is None else source_ts},"timestamp":{timestamp},"topic":{self.topic},'
            f'"tx_id":{_text(tx_id)},{said}}}\n'
        ).encode()

    def _value(self, value: bytes | None) -> str:
        if self.layout.values == "text" or value is None:
            return _text_or_base64("value", value)
        said = _text_or_base64("value", value)
        return said if said.startswith('"value_base64"') else f'"value_text"{said.removeprefix(_NAME)}'

    def headers(self, headers: Any) -> str:
        """One record's headers as JSON; None: it has none."""
        if headers != self._last_headers[0]:
            fields = [f"{{{_text_or_base64('name', h['key'])},{_text_or_base64('value', h['value'])}}}" for h in headers or ()]
            self._last_headers = headers, f"[{','.join(fields)}]"
        return self._last_headers[1]


def _text(text: str | None) -> str:
    return "null" if text is None else _encoded(text)


def _text_or_base64(name: str, data: bytes | str | None) -> str:
    if data is None or isinstance(data, str):
        return f'"{name}":{_text(data)}'
    try:
        return f'"{name}":{_encoded(data.decode())}'
    except UnicodeDecodeError:
        return f'"{name}_base64":"{base64.b64encode(data).decode()}"'
