"""Keys of types without statistics, alone and in a composite, and zeros with a sign: captured, folded, compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from deltalake import DeltaTable

from cdc_assets.defs.lake_assets import build_silver_assets
from cdc_assets.registry import names
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = {"flags": ("k",), "blobs": ("k",), "lists": ("k",), "ratios": ("k",), "mixed": ("k", "f", "b", "l")}
VERSIONED = ("ratios", "mixed")
DDL = """
CREATE TABLE flags (k boolean PRIMARY KEY, v text);
INSERT INTO flags VALUES (true, 'a'), (false, 'b');
CREATE TABLE blobs (k bytea PRIMARY KEY, v text);
INSERT INTO blobs VALUES ('', 'a'), ('\\x00', 'b'), ('\\xff00', 'c');
CREATE TABLE lists (k int[] PRIMARY KEY, v text);
INSERT INTO lists VALUES ('{}', 'a'), ('{1,NULL}', 'b'), ('{1,2}', 'c');
CREATE TABLE ratios (k double precision PRIMARY KEY, v double precision);
INSERT INTO ratios VALUES ('-0', '-0'), ('NaN', 0), (1.5, '-0');
CREATE TABLE mixed (k real, f boolean, b bytea, l float8[], v text, PRIMARY KEY (k, f, b, l));
INSERT INTO mixed VALUES ('-0', true, '\\x01', '{-0}', 'a'), (0, false, '\\x01', '{0}', 'b'),
  ('-0', false, '\\x01', '{1,-0}', 'c');
"""
CHANGES = """
UPDATE flags SET v = 'new' WHERE k;
DELETE FROM blobs WHERE k = '';
UPDATE blobs SET v = 'new' WHERE k = '\\x00';
INSERT INTO lists VALUES ('{2}', 'd');
UPDATE lists SET v = 'new' WHERE k = '{1,NULL}';
UPDATE ratios SET v = 7 WHERE k = 0;
UPDATE mixed SET v = 'new' WHERE k = 0 AND f;
DELETE FROM mixed WHERE k = 0 AND l = '{1,0}';
"""


def lake_and_source(chain: SmallChain, table: str, path: str) -> tuple[list[str], list[str]]:
    """Both sides' rows, by a reader that is not Spark. `+ 0`: what has a sign of zero in a key is one key on both sides."""
    found = [row for row in DeltaTable(path).to_pyarrow_table().to_pylist() if row.get("_is_current", True)]
    rows = [tuple(v for c, v in row.items() if not c.startswith(("_cdc_", "_valid_", "_is_"))) for row in found]
    with chain.live.connection() as connection:
        wanted = connection.execute(f"SELECT * FROM {table}".encode()).fetchall()
    keys = len(KEYS[table])
    return sorted(shown(row, keys) for row in rows), sorted(shown(row, keys) for row in wanted)


def shown(row: tuple[object, ...], keys: int) -> str:
    """A row's text; the zeros of its key without their sign."""
    return repr([unsigned(v) if i < keys else v for i, v in enumerate(row)])


def unsigned(value: object) -> object:
    if isinstance(value, list):
        return [unsigned(v) for v in value]
    return value + 0 if isinstance(value, float) else value


@pytest.mark.all
@pytest.mark.spark
def test_such_keys_are_folded_and_compared(live: LiveSource, remote: str, session: SparkSession, tmp_path: Path) -> None:
    """Of a key -0 the comparison told a phantom and a missing row; the others never reached silver."""
    own = replace(live, name="unusual_keys")
    with own.connection() as connection:
        connection.execute(DDL.encode())
    declared = [{"name": f"public.{table}", **({"history": "scd2"} if table in VERSIONED else {})} for table in KEYS]
    with small_chain(own, remote, session, tmp_path, declared) as chain:
        for statements in ("", CHANGES, "UPDATE ratios SET k = 0 WHERE k = 0; UPDATE mixed SET k = '-0', v = 'last' WHERE k = 0"):
            if statements:
                with own.connection() as connection:
                    connection.execute(statements.encode())
                chain.advance(fold=False)
            assert dg.materialize([build_silver_assets(chain.source)], resources={"platform": chain.platform}).success
            for table in KEYS:
                found, wanted = lake_and_source(chain, table, chain.silver(table))
                assert found == wanted, table
            told = {name: (r.verdict, r.reason, r.differences) for name, r in chain.compare().items()}
            assert told == dict.fromkeys(KEYS, ("equal", "", ()))
            for table in VERSIONED:
                path = names.history_path(str(chain.root), chain.source, chain.source.table(table))
                found, wanted = lake_and_source(chain, table, path)
                assert found == wanted, table
                passed, said, _ = chain.history_told(table)
                assert passed, said
