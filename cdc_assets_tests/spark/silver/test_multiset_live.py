"""A table without a key on a live PostgreSQL: silver is the same multiset, whatever is done or killed.

`--all` folds, kills and compares at every step; else there are three batches, the last one killed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = {"name": "public.tally", "without_key": "multiset"}
DDL = """
CREATE TABLE tally (a int, v text, x float8, n numeric(6,2), at timestamptz, tags text[], about jsonb, raw bytea);
ALTER TABLE tally REPLICA IDENTITY FULL;
INSERT INTO tally SELECT i % 4, 'v' || i % 3, i % 2 / 2.0, i % 5, '2026-01-01Z'::timestamptz + i % 3 * interval '1.000001 s',
  CASE i % 3 WHEN 0 THEN ARRAY['a', NULL] WHEN 1 THEN '{}' END, '{"b": 1, "a": [1, 2]}', decode(md5((i % 2)::text), 'hex')
  FROM generate_series(1, 200) i;
"""
# A row of each kind is there several times; ctid picks one.
STEPS = [
    [
        "DELETE FROM tally WHERE ctid = (SELECT min(ctid) FROM tally WHERE a = 1)",
        "INSERT INTO tally SELECT * FROM tally LIMIT 30",
    ],
    ["UPDATE tally SET a = NULL WHERE a = 2 AND v = 'v1'", "UPDATE tally SET x = '-0.0' WHERE x = 0 AND a = 0", "SAVEPOINT s"],
    ["DELETE FROM tally WHERE ctid IN (SELECT ctid FROM tally WHERE a IS NULL LIMIT 3)"],
    ["ALTER TABLE tally ADD COLUMN extra int DEFAULT 7", "UPDATE tally SET extra = NULL WHERE v = 'v2' AND a = 0"],
    [
        "INSERT INTO tally (a, v) SELECT 9, repeat(md5('1') || md5('2'), 400) FROM generate_series(1, 3)",
        "UPDATE tally SET x = 1 WHERE a = 9",
    ],
    [
        "UPDATE tally SET n = 5.5 WHERE ctid = (SELECT max(ctid) FROM tally WHERE a = 9)",
        "DELETE FROM tally WHERE x = '-0.0' AND v = 'v0'",
    ],
    [
        "ALTER TABLE tally ALTER n TYPE text",
        "DELETE FROM tally WHERE ctid IN (SELECT ctid FROM tally WHERE n = '1.00' LIMIT 3)",
        "UPDATE tally SET n = n || ' EUR' WHERE a = 3",
    ],
    ["TRUNCATE tally", "INSERT INTO tally (a, v) VALUES (1, 'x'), (1, 'x'), (1, NULL)", "DELETE FROM tally WHERE v IS NULL"],
    ["UPDATE tally SET a = 2 WHERE ctid = (SELECT min(ctid) FROM tally)"],
]


@pytest.fixture(scope="module")
def chain(live: LiveSource, remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallChain]:
    own = replace(live, name="tally")
    with own.connection() as connection:
        connection.execute(DDL.encode())
    with small_chain(own, remote, session, tmp_path_factory.mktemp("tally"), [TABLE]) as made:
        yield made


def in_source(chain: SmallChain) -> Counter[str]:
    with chain.live.connection() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        cursor = connection.execute("SELECT * FROM tally")
        assert cursor.description is not None
        names = [c.name for c in cursor.description]
        return Counter(shown(dict(zip(names, row, strict=True))) for row in cursor.fetchall())


def in_silver(chain: SmallChain) -> Counter[str]:
    rows = DeltaTable(chain.silver("tally")).to_pyarrow_table().to_pylist()
    return Counter(shown(of_now({k: v for k, v in row.items() if not k.startswith("_cdc_")})) for row in rows)


def of_now(row: dict[str, Any]) -> dict[str, Any]:
    """A row from before the change of type has its number where it was."""
    late = row.pop("n__string", None)
    return row if late is None else {**row, "n": late}


def shown(row: dict[str, Any]) -> str:
    def one(name: str, value: Any) -> Any:
        if name == "about" and isinstance(value, str):
            return json.loads(value)
        return value.hex() if isinstance(value, bytes) else value if isinstance(value, list | dict) else str(value)

    return repr({name: one(name, value) for name, value in sorted(row.items())})


@pytest.mark.all
@pytest.mark.stack
def test_the_same_multiset_at_every_step(chain: SmallChain, monkeypatch: pytest.MonkeyPatch, thorough: bool) -> None:
    assert in_silver(chain) == in_source(chain)
    folded = (0, 2, 3, 4, 5, 6, 8) if thorough else (2, 5, 6, 8)
    for number, step in enumerate(STEPS):
        with chain.live.connection(autocommit=False) as connection:
            for statement in step:
                connection.execute(statement.encode())
        if number not in folded:
            continue
        if number == 4:
            # What silver has not folded yet is counted with it, at an exact place of the log.
            (result,) = chain.compare().values()
            assert result.equal, result.sentence()
        if number == 8 or (thorough and number % 2):
            killed(chain, monkeypatch)
        chain.advance()
        assert in_silver(chain) == in_source(chain), step
    (result,) = chain.compare().values()
    assert result.equal, result.sentence()


def killed(chain: SmallChain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before silver's commit, and again right after it."""

    def before(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("spark.silver.keyless_tables._replace", before)
        patch.setattr("spark.silver.keyless_tables.write_rows", before)
        with pytest.raises(KeyboardInterrupt):
            chain.advance()
    with monkeypatch.context() as patch:
        patch.setattr("spark.silver.silver_table.tune", before)
        with pytest.raises(KeyboardInterrupt):
            chain.fold()
