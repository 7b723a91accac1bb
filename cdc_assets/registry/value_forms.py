"""How a connector writes values: Debezium's handling modes. The defaults are exact for most types (docs/reference/types.md)."""

from __future__ import annotations

from typing import Literal

from cdc_assets.registry.declared import Declared
from spark.types.modes import Modes


class ValueForms(Declared):
    """How a connector writes values. The defaults are exact for most types (docs/reference/types.md).

    They are Debezium's `decimal.handling.mode`, `time.precision.mode`, `binary.handling.mode`, `interval.handling.mode`,
    `hstore.handling.mode` and its unknown types. `unsigned` is MariaDB's `bigint.unsigned.handling.mode`.
    """

    decimal: Literal["string", "precise", "double"] = "string"
    temporal: Literal["microseconds", "adaptive", "adaptive_time_microseconds", "connect", "nanoseconds", "isostring"] = (
        "microseconds"
    )
    binary: Literal["bytes", "base64", "base64-url-safe", "hex"] = "bytes"
    interval: Literal["string", "numeric"] = "string"
    hstore: Literal["json", "map"] = "json"
    unknown: Literal["include", "omit"] = "include"
    unsigned: Literal["precise", "long"] = "precise"

    @property
    def modes(self) -> str:
        """As spark.specs.Column has them."""
        return Modes(**self.model_dump()).text()
