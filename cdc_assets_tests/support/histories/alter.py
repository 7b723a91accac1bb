"""A table's definition changed between its transactions, and within one: columns added, widened, dropped, or none of it in the
end, since PostgreSQL's DDL is rolled back like anything else.

A name is never used twice: a column dropped and added again is another one, which no event tells of
(docs/explanation/schema-changes.md).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from spark.specs import Column

ADDED = {"text": ("text", ""), "filled": ("text", " DEFAULT 'was there'"), "count": ("integer", " NOT NULL DEFAULT 7")}
WIDER = {"integer": "bigint", "numeric(20,3)": "numeric(24,3)", "numeric(24,3)": "numeric(26,4)"}


@dataclass
class Definition:
    """A table's columns as they are, and what they have been: `columns` from the time in `since` on (ms)."""

    columns: list[tuple[Column, ...]]
    since: list[int] = field(default_factory=lambda: [0])
    numbers: int = 0

    @property
    def now(self) -> tuple[Column, ...]:
        """The columns as they are."""
        return self.columns[-1]

    def added(self) -> list[Column]:
        """Those that the table did not have from its start."""
        first = {c.name for c in self.columns[0]}
        return [c for c in self.now if c.name not in first]

    def values(self, choice: random.Random, serial: int) -> dict[str, Any]:
        """Of some of the added columns, the others take their defaults."""
        chosen = [c for c in self.added() if choice.random() < 0.7]
        return {c.name: self.value(c, serial) for c in chosen}

    def value(self, column: Column, serial: int) -> Any:
        """A value of its type, beyond the narrower one where it has been widened."""
        if column.source_type == "bigint":
            return serial + (1 << 40)
        return serial if column.source_type == "integer" else f"{column.name}-{serial}"

    def change(self, choice: random.Random) -> str:
        """What to ask of ALTER TABLE."""
        wider = [c for c in self.now if c.source_type in WIDER and c.name != "id"]
        acts = ["add", "add", *["widen"] * bool(wider), *["drop"] * bool(self.added())]
        act = choice.choice(acts)
        if act == "widen":
            column = choice.choice(wider)
            return f"ALTER COLUMN {column.name} TYPE {WIDER[column.source_type]}"
        if act == "drop":
            return f"DROP COLUMN {choice.choice(self.added()).name}"
        self.numbers += 1
        name, (kind, more) = choice.choice([*ADDED.items()])
        return f"ADD COLUMN {name}_{self.numbers} {kind}{more}"

    def changed(self, catalogue: Callable[[], tuple[Column, ...]], at: int) -> None:
        """What the catalogue shows by now holds from that time on."""
        self.columns.append(catalogue())
        self.since.append(at)

    def rewritten(self) -> bool:
        """Whether the last change wrote the table anew: its catalogue forgets what rows from before had in an added column."""
        before, after = ({c.name: c.missing for c in columns} for columns in self.columns[-2:])
        return any(value is not None and name in after and after[name] is None for name, value in before.items())


def now() -> int:
    """Milliseconds, by the clock that the connector reads too."""
    return time.time_ns() // 1_000_000
