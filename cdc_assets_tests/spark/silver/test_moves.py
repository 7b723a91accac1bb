"""Keys that change while a large value does not: the row under the new key has the value that it had under the old one.

What PostgreSQL holds is computed beside the events, statement by statement; Debezium sends a delete and a create of one
LSN for a key change, unchanged large values left out of both (seen in the recorded histories, which check the same).
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.capture.connectors.setting_overrides import PUBLIC as GAP
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake, rows, values
from cdc_assets_tests.support.oracles.proven import proven
from spark.silver import history_job as history
from spark.silver import quarantine_redrive
from spark.silver.quarantine_redrive import Choice
from spark.specs import Column, SilverSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (Column("id", "integer", False), Column("v", "text"), Column("a", "text"), Column("b", "text[]"))
PARTITIONS = 3


@dataclass
class Table:
    """The table, and what its connector sent by partition of the key."""

    rows: dict[int, dict[str, Any]] = field(default_factory=dict)
    log: dict[int, list[Record]] = field(default_factory=lambda: {p: [] for p in range(PARTITIONS)})
    lsn: int = 100
    past: list[tuple[int, dict[str, Any] | None]] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)

    def insert(self, key: int, a: str | None = "a", b: list[str] | None = None) -> None:
        self._write()
        self._set(key, {"id": key, "v": f"v{self.lsn}", "a": a, "b": b, **self.more}, "c", ())

    def update(self, key: int, **changes: Any) -> None:
        self._write()
        row = {**self.rows[key], "v": f"v{self.lsn}", **changes}
        self._set(key, row, "u", {"a", "b"} - set(changes))

    def delete(self, key: int) -> None:
        self._write()
        self._gone(key)

    def move(self, old: int, new: int, **changes: Any) -> None:
        self._write()
        row = {**self.rows[old], "id": new, **changes}
        self._gone(old)
        self._set(new, row, "c", {"a", "b"} - set(changes))

    def swap(self, one: int, other: int) -> None:
        self.move(one, -1 - one)
        self.move(other, one)
        self.move(-1 - one, other)

    def broken(self, key: int) -> None:
        self._write()
        self._send(key, "broken")

    def _write(self) -> None:
        self.lsn += 8

    def _gone(self, key: int) -> None:
        del self.rows[key]
        self.past.append((key, None))
        self._send(key, self._event("d", None))
        self._send(key, None)

    def _set(self, key: int, row: dict[str, Any], op: str, unchanged: Any) -> None:
        self.rows[key] = row
        self.past.append((key, row))
        left_out = {"a": GAP, "b": [GAP]}
        sent = {n: left_out[n] if n in unchanged and v is not None else v for n, v in row.items()}
        self._send(key, self._event(op, sent))

    def _event(self, op: str, after: dict[str, Any] | None) -> str:
        source = {"lsn": self.lsn, "sequence": json.dumps(["100", str(self.lsn)]), "txId": 7, "ts_us": 1, "snapshot": "false"}
        return json.dumps({"op": op, "before": None, "after": after, "source": source})

    def _send(self, key: int, value: str | None) -> None:
        log = self.log[key % PARTITIONS]
        log.append(Record(len(log), json.dumps({"id": key}), value))


def played(choice: random.Random, *, worlds: int = 12, steps: int = 12) -> Table:
    table = Table()
    for step in range(steps):
        for world in range(worlds):
            keys = [*range(10 * world, 10 * world + 4)]
            key, other = choice.sample(keys, 2)
            act = choice.choice(["insert", "update", "large", "delete", "move", "move", "move", "swap"])
            value = f"{step}-{world}"
            if key not in table.rows:
                table.insert(key, value, [value] if choice.random() < 0.7 else None)
            elif act == "update":
                table.update(key)
            elif act == "large":
                table.update(key, **choice.choice([{"a": value}, {"b": [value]}, {"a": value, "b": None}]))
            elif act == "delete":
                table.delete(key)
            elif act == "move" and other not in table.rows:
                table.move(key, other, **choice.choice([{}, {}, {"a": value}, {"b": [value]}]))
            elif act == "swap" and other in table.rows:
                table.swap(key, other)
    return table


def lake_of(session: SparkSession, root: Path, table: Table, **more: Any) -> tuple[Lake, SilverSpec]:
    lake = Lake(session, root)
    for partition, records in table.log.items():
        if records:
            lake.put("t", *records, partition=partition)
    return lake, replace(lake.spec("t", COLUMNS), **more)


def by_id(found: Any) -> list[dict[str, Any]]:
    return sorted(({k: v for k, v in row.items() if not k.startswith("_")} for row in found), key=lambda row: row["id"])


def still_held(spec: SilverSpec) -> list[dict[str, Any]]:
    if not Path(spec.quarantine).exists():
        return []
    return [row for row in rows(spec.quarantine) if row["redriven_at"] is None and row["dropped_at"] is None]


def test_moved_rows_keep_their_values(session: SparkSession, tmp_path: Path) -> None:
    choice = random.Random(1)
    table = played(choice)
    for records in table.log.values():
        again = [replace(r, offset=len(records) + i) for i, r in enumerate(records[len(records) // 2 :])]
        records += again if choice.random() < 0.5 else []
    lake, spec = lake_of(session, tmp_path, table)
    versions = replace(spec, path=str(tmp_path / "history"))
    ends = {p: len(records) for p, records in table.log.items()}
    at = dict.fromkeys(ends, 0)
    for batch in range(2):
        # Each partition as far as it likes: a create may come long before the delete of its row's old key.
        at = {p: end if batch == 1 else min(end, at[p] + choice.randrange(end // 2)) for p, end in ends.items()}
        lake.append(lake.ranges("t", at))
        lake.fold(spec)
        history.run(session, versions)
    assert by_id(values(spec.path)) == by_id(table.rows.values())
    assert still_held(spec) == []
    current = [row for row in rows(versions.path) if row["_is_current"]]
    assert by_id(current) == by_id(table.rows.values())
    made = [(r["id"], r["v"], r["a"], r["b"] and tuple(r["b"])) for r in rows(versions.path)]
    past = {(k, r["v"], r["a"], r["b"] and tuple(r["b"])) for k, r in table.past if r is not None}
    assert set(made) == past
    proven(session, versions, spec)


@pytest.mark.all
def test_by_the_table_alone(session: SparkSession, tmp_path: Path) -> None:
    """Old rows from the batches before; a chain and a swap in one batch; soft deletes keep the values too."""
    table = Table()
    for key in range(4):
        table.insert(3 * key, f"a{key}", [f"b{key}"])
    first = {0: len(table.log[0])}
    table.move(0, 12)
    table.move(12, 15)
    table.update(15)
    table.move(15, 18)
    table.swap(3, 6)
    table.update(9, a="new")
    table.move(9, 21)
    table.insert(9, "another")
    table.delete(9)
    lake, spec = lake_of(session, tmp_path, table)
    soft = replace(spec, path=str(tmp_path / "soft"), deletes="soft")
    for end in (first, {0: len(table.log[0])}):
        lake.append(lake.ranges("t", {**end, **({p: len(r) for p, r in table.log.items() if p} if end is not first else {})}))
        lake.fold(spec)
        lake.fold(soft)
    assert by_id(values(spec.path)) == by_id(table.rows.values())
    assert by_id(row for row in rows(soft.path) if not row["_cdc_deleted"]) == by_id(table.rows.values())
    gone = {row["id"]: (row["a"], row["b"]) for row in rows(soft.path) if row["_cdc_deleted"]}
    assert gone[12] == gone[15] == ("a0", ["b0"])
    assert still_held(spec) == still_held(soft) == []


@pytest.mark.all
def test_a_row_of_many_columns_moves(session: SparkSession, tmp_path: Path) -> None:
    """Spark Connect reads expressions of up to 100 levels: what is asked of each column must not be a chain."""
    wide = [f"c{number}" for number in range(60)]
    table = Table(more=dict.fromkeys(wide, "x"))
    table.insert(0, "a", ["b"])
    table.move(0, 3)
    lake, spec = lake_of(session, tmp_path, table, columns=(*COLUMNS, *(Column(name, "text") for name in wide)))
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    assert by_id(values(spec.path)) == by_id(table.rows.values())


@pytest.mark.all
def test_what_nobody_knows_waits_in_quarantine(session: SparkSession, tmp_path: Path) -> None:
    table = Table()
    table.insert(0, "x")
    table.broken(0)
    table.move(0, 3)
    table.update(3)
    lake, spec = lake_of(session, tmp_path, table)
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    assert values(spec.path) == []
    assert [row["error_class"] for row in sorted(still_held(spec), key=lambda r: r["offset"])] == [
        "envelope",
        "moved",
        "after_problem",
    ]
    quarantine_redrive.drop(session, spec, Choice(error_class="envelope"))
    done = quarantine_redrive.redrive(session, spec, Choice())
    assert done.redriven == 2
    assert by_id(values(spec.path)) == by_id(table.rows.values())
    assert still_held(spec) == []
