"""All row events of a transaction at one place, each with its rows numbered from 0: the last event of a key wins.

So a MariaDB from 11.4 on sends them (binlog_legacy_event_pos=OFF), and a MySQL with binlog_transaction_compression. The truth is
a dict that is changed statement by statement. https://jira.mariadb.org/browse/MDEV-33664
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = dict[int, int]
KEYS = range(1, 6)


def statement(random: Random, rows: Rows, number: int) -> list[tuple[str, int, int | None, int | None]]:
    """(op, key, before, after) of some keys in any order, and the rows that it leaves."""
    changes = []
    for key in random.sample(KEYS, random.randint(1, len(KEYS))):
        before = rows.get(key)
        after = None if before is not None and random.random() < 0.3 else number
        changes.append(("c" if before is None else "d" if after is None else "u", key, before, after))
        rows.pop(key, None)
        rows |= {} if after is None else {key: after}
    return changes


def history(random: Random) -> tuple[list[Record], Rows]:
    """The records of some transactions, and the rows behind them."""
    rows: Rows = {}
    records: list[Record] = []
    for pos in range(1000, 1000 + 100 * random.randint(1, 4), 100):
        for _ in range(random.randint(1, 5)):
            for row, (op, key, before, after) in enumerate(statement(random, rows, len(records))):
                source = {"file": "binlog.000001", "pos": pos, "row": row, "gtid": f"0-1-{pos}", "ts_us": 1, "snapshot": "false"}
                images = {"before": image(key, before), "after": image(key, after)}
                value = json.dumps({**images, "op": op, "source": source, "ts_ms": 1})
                records.append(Record(len(records), json.dumps({"id": key}), value))
    return records, rows


def image(key: int, value: int | None) -> dict[str, object] | None:
    return None if value is None else {"id": key, "v": str(value)}


@pytest.mark.parametrize("connector", ["mariadb", "mysql"])
def test_the_last_event_of_a_key_wins(session: SparkSession, tmp_path: Path, connector: str) -> None:
    lake, expected, ends = Lake(session, tmp_path, form=("debezium-json", connector)), {}, {}
    for seed in range(5):
        records, rows = history(random := Random(seed))
        lake.put(f"t{seed}", *records)
        expected[f"t{seed}"] = {key: str(value) for key, value in rows.items()}
        # What a run finds ends anywhere, within a statement too.
        ends[f"t{seed}"] = (random.randint(1, len(records)), len(records))
    lake.append(*(lake.ranges(table, {0: first}) for table, (first, _) in ends.items()))
    lake.fold(lake.spec("t0"))
    lake.append(*(lake.ranges(table, {0: last}, start=first) for table, (first, last) in ends.items() if last > first))
    found = {}
    for table in expected:
        lake.fold(lake.spec(table))
        found[table] = {row["id"]: row["v"] for row in values(lake.spec(table).path)}
    assert found == expected
