"""Records that a test makes for the ledger, and what the ledger says of them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake, rows
from spark.proof.ledger_contract import FATES, LedgerSpec, LedgerTable
from spark.specs import SilverSpec

BEGIN = 1_767_225_600_000  # 2026-01-01, as Lake's Kafka timestamps.

Window = tuple[int, str]

Fates = dict[Window, Counter[str]]


@dataclass(frozen=True)
class Made:
    """One record as the test made it: `place` is its LSN, `minute` its event time."""

    op: str
    key: int
    place: int
    minute: int

    def record(self, offset: int) -> Record:
        if self.op == "tombstone":
            return Record(offset, json.dumps({"id": self.key}), None)
        if self.op == "poison":
            return Record(offset, None, "poison")
        source = {"lsn": self.place, "sequence": json.dumps([str(self.place), str(self.place)]), "txId": 7, "snapshot": "false"}
        source["ts_ms"] = BEGIN + self.minute * 60_000 + 1
        row = {"id": self.key, "v": f"v{self.place}"}
        before, after = ({"id": self.key, "v": None}, None) if self.op == "d" else (None, row)
        return Record(
            offset, json.dumps({"id": self.key}), json.dumps({"before": before, "after": after, "source": source, "op": self.op})
        )


def ledger_spec(lake: Lake, *tables: SilverSpec, **more: object) -> LedgerSpec:
    path = str(lake.root / "ledger")
    return LedgerSpec("source", path, lake.bronze_path, tuple(LedgerTable(t) for t in tables), **more)  # type: ignore[arg-type]


def told(path: str) -> tuple[Fates, Counter[Window]]:
    """The ledger as delta-rs reads it: fates and bronze's records, panes summed."""
    fates: Fates = defaultdict(Counter)
    bronze: Counter[Window] = Counter()
    for row in rows(path):
        window = (int(row["window_start"].timestamp()), row["op"])
        bronze[window] += row["bronze"]
        for name in FATES:
            fates[window][name] += row[name]
    return {w: +c for w, c in fates.items()}, bronze


def sent(made: Made) -> tuple[str | None, str | None]:
    record = made.record(0)
    return record.key, record.value
