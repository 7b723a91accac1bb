"""How a connector writes values: Debezium's handling modes, for connectors that somebody else has configured.

    mode       Debezium's option            our own connectors   others that are read
    decimal    decimal.handling.mode        string               precise, double
    temporal   time.precision.mode          microseconds         adaptive, adaptive_time_microseconds, connect,
                                                                 nanoseconds, isostring
    binary     binary.handling.mode         bytes                base64, base64-url-safe, hex
    interval   interval.handling.mode       string               numeric
    hstore     hstore.handling.mode         json                 map
    unknown    include.unknown.datatypes    include              omit
    unsigned   bigint.unsigned.handling.mode  precise            long

A type that loses something under a mode is refused by name, or read when the table accepts that (docs/reference/types.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from spark.errors import JobRefusedError

CHOICES: Mapping[str, tuple[str, ...]] = {
    "decimal": ("string", "precise", "double"),
    "temporal": ("microseconds", "adaptive", "adaptive_time_microseconds", "connect", "nanoseconds", "isostring"),
    "binary": ("bytes", "base64", "base64-url-safe", "hex"),
    "interval": ("string", "numeric"),
    "hstore": ("json", "map"),
    "unknown": ("include", "omit"),
    "unsigned": ("precise", "long"),
}


@dataclass(frozen=True)
class Modes:
    """The modes of one connector; by default those of our own connectors."""

    decimal: str = "string"
    temporal: str = "microseconds"
    binary: str = "bytes"
    interval: str = "string"
    hstore: str = "json"
    unknown: str = "include"
    unsigned: str = "precise"

    def __post_init__(self) -> None:
        for name, choice in asdict(self).items():
            if choice not in CHOICES[name]:
                raise JobRefusedError(f"mode {name}={choice} is not read; choose one of {', '.join(CHOICES[name])}")

    @classmethod
    def parse(cls, text: str) -> Modes:
        """From `decimal=precise,temporal=isostring`: what differs from our own connectors.

        Raises:
            JobRefusedError: naming what is not known.
        """
        pairs = dict(pair.split("=", 1) for pair in text.split(",") if pair)
        unknown = sorted(set(pairs) - {f.name for f in fields(cls)})
        if unknown:
            raise JobRefusedError(f"modes {unknown} are unknown; known are {', '.join(CHOICES)}")
        return cls(**pairs)

    def text(self) -> str:
        """The modes that are not the default, as the text that `parse` reads."""
        ours = asdict(Modes())
        return ",".join(f"{k}={v}" for k, v in asdict(self).items() if v != ours[k])
