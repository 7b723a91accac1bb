"""A random history of a topic of readings, and what DuckDB makes of the rows that it leaves."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import rows
from spark.specs import Column
from spark.upkeep.declared_windows import Measure, WindowedSpec

ORIGIN = dt.datetime(1970, 1, 2)
"""Some windows begin before 1970."""
COLUMNS = (
    Column("id", "integer", False),
    Column("sensor", "text"),
    Column("at", "timestamp with time zone"),
    Column("amount", "numeric(10,2)"),
    Column("n", "bigint"),
)
MEASURES = (
    Measure("readings", "count"),
    Measure("known", "count", "n"),
    Measure("total", "sum", "amount"),
    Measure("sum_n", "sum", "n"),
    Measure("lowest", "min", "amount"),
    Measure("last_at", "max", "at"),
    Measure("different", "distinct", "n"),
)
_ARROW = pa.schema(
    [
        ("id", pa.int32()),
        ("sensor", pa.string()),
        ("at", pa.timestamp("us")),
        ("amount", pa.decimal128(10, 2)),
        ("n", pa.int64()),
    ]
)
_SQL = """
WITH hopped AS (
  SELECT *, time_bucket(to_seconds({every}), "at", TIMESTAMP '1970-01-01') - to_seconds(back * {every}) AS start
  FROM readings, range({count}) AS hops(back) WHERE "at" IS NOT NULL
)
SELECT sensor, start, start + to_seconds({size}), count(*), count(n), sum(amount), sum(n)::DECIMAL(38,0), min(amount), max("at"),
  count(DISTINCT n) FROM hopped GROUP BY sensor, start
"""


@dataclass
class History:
    """Readings come in any order of event time, again, changed and taken back; `live` is what is left of them."""

    seed: int
    records: list[Record] = field(default_factory=list)
    live: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.choice = random.Random(self.seed)

    def go_on(self, count: int) -> int:
        """So many more records; where the topic ends then."""
        for _ in range(count):
            act = self.choice.random()
            known = [*self.live]
            if known and act < 0.15:
                self._take_back(self.choice.choice(known))
            elif known and act < 0.3:
                self._send(self.choice.choice(known), self._reading())
            elif known and act < 0.4:
                again = self.choice.choice(known)
                self._send(again, self.live[again])
            else:
                self._send(self.choice.randrange(10_000), self._reading())
        return len(self.records)

    def _reading(self) -> dict[str, Any]:
        choice = self.choice
        # Most are of now, some late by hours: the clock goes on with the records.
        late = choice.choice([0, 0, 0, choice.randrange(600), choice.randrange(2 * 86_400)])
        at = ORIGIN + dt.timedelta(seconds=len(self.records) * 20 - late, microseconds=choice.randrange(1_000_000))
        return {
            "sensor": choice.choice(["a", "b", "c d'", None]),
            "at": None if choice.random() < 0.05 else at,
            "amount": None if choice.random() < 0.1 else Decimal(choice.randrange(-5000, 5000)) / 100,
            "n": None if choice.random() < 0.1 else choice.randrange(-3, 4) * 2**40,
        }

    def _send(self, number: int, reading: dict[str, Any]) -> None:
        self.live[number] = reading
        said = {
            **reading,
            "id": number,
            "at": reading["at"] and f"{reading['at'].isoformat()}Z",
            "amount": str(reading["amount"]),
        }
        said["amount"] = None if reading["amount"] is None else said["amount"]
        self.records.append(Record(len(self.records), json.dumps({"id": number}), json.dumps(said)))

    def _take_back(self, number: int) -> None:
        del self.live[number]
        self.records.append(Record(len(self.records), json.dumps({"id": number}), None))

    def expected(self, spec: WindowedSpec) -> list[tuple[Any, ...]]:
        """By DuckDB, over the rows that are left; whether a window is final by Python."""
        connection = duckdb.connect()
        left = [{"id": number, **reading} for number, reading in self.live.items()]
        connection.register("readings", pa.Table.from_pylist(left, schema=_ARROW))
        statement = _SQL.format(size=spec.size, every=spec.every, count=spec.size // spec.every)
        newest = max((row["at"] for row in left if row["at"]), default=None)
        lag = dt.timedelta(seconds=spec.delay + spec.allowed_lateness)
        found = connection.execute(statement).fetchall()
        return sorted(((*row, newest is not None and row[2] + lag <= newest) for row in found), key=str)


def windows_of(lake_root: Any, silver_path: str, name: str, *, size: int, every: int, path: str = "") -> WindowedSpec:
    path = path or str(lake_root / "windows" / name)
    more: dict[str, Any] = {"by": ("sensor",), "measures": MEASURES, "delay": 60, "allowed_lateness": 3600}
    return WindowedSpec(
        "source", "readings", name, silver_path, path, f"{path}__panes", event_time="at", size=size, every=every, **more
    )


def in_table(spec: WindowedSpec) -> list[tuple[Any, ...]]:
    """The results as delta-rs reads them, in the form of `expected`."""
    names = ("sensor", "window_start", "window_end", *(m.name for m in spec.measures), "is_final")
    return sorted((tuple(_plain(row[name]) for name in names) for row in rows(spec.path)), key=str)


def by_panes(spec: WindowedSpec) -> list[tuple[Any, ...]]:
    """The results without `is_final`, from all that was said and taken back."""
    names = ("sensor", "window_start", "window_end", *(m.name for m in spec.measures))
    counted: Counter[tuple[Any, ...]] = Counter()
    for row in rows(spec.panes_path):
        counted[tuple(_plain(row[name]) for name in names)] += row["pane_sign"]
    assert {*counted.values()} <= {0, 1}
    return sorted((result for result, count in counted.items() if count), key=str)


def _plain(value: Any) -> Any:
    return value.astimezone(dt.timezone.utc).replace(tzinfo=None) if isinstance(value, dt.datetime) else value
