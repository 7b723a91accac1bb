"""What the stream takes: a frozen dataclass that travels as JSON, as those of the other jobs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from spark.errors import SpecError
from spark.specs import BronzeSpec, JsonSpec, SilverSpec


@dataclass(frozen=True)
class StreamSpec(JsonSpec):
    """A source's topics, each range empty and at a partition's first offset where bronze has nothing of it, and the tables that
    are folded from them.

    `checkpoint` is a folder in the lake. `max_offsets` is how many offsets one append reads at most.
    """

    bronze: BronzeSpec
    checkpoint: str
    silver: tuple[SilverSpec, ...] = ()
    history: tuple[SilverSpec, ...] = ()
    max_offsets: int = 500_000

    def __post_init__(self) -> None:
        if self.max_offsets < 1:
            raise SpecError(f"max_offsets {self.max_offsets}: an append reads at least one")

    @classmethod
    def from_json(cls, text: str) -> StreamSpec:
        """Read back what to_json wrote.

        Raises:
            SpecError: it is no stream's.
        """
        try:
            data: dict[str, Any] = json.loads(text)
            data["bronze"] = BronzeSpec.from_json(json.dumps(data["bronze"]))
            for name in ("silver", "history"):
                data[name] = tuple(SilverSpec.from_json(json.dumps(each)) for each in data.get(name, ()))
            return cls(**data)
        except (ValueError, KeyError, TypeError) as error:
            raise SpecError(f"no spec of a stream: {error}; print one: cdc spec stream SOURCE") from error
