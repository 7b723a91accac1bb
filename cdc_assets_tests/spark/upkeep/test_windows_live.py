"""Windows of a captured table: assets and checks in Dagster, and SQL over the source as the oracle."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from deltalake import DeltaTable

from cdc_assets.chain.windowed_results import is_behind, windows_of
from cdc_assets.defs.lake_assets import batch_check, build_windows_assets, sums_check
from cdc_assets_tests.support.lake.lake import rows
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

HOPPING: dict[str, Any] = {
    **{"name": "hopping", "event_time": "sold_at", "size": "1h", "every": "20m", "by": ["city", "kind"]},
    "measures": {
        **{"sales": "count", "paid": "count total", "revenue": "sum total", "pieces": "sum pieces", "weight": "sum weight"},
        **{"first_at": "min sold_at", "dearest": "max total", "buyers": "distinct buyer"},
    },
}
TABLE = {"name": "public.windowed", "windows": [HOPPING]}
_INSERT = """
INSERT INTO windowed SELECT i, (array['São Paulo', 'Rio | de', NULL])[1 + i %% 3], i %% 2 = 0,
  '1970-01-01 00:00:00'::timestamptz + (i * 7919 %% 20000 - 3000) * interval '1.000001 second',
  nullif(i * 31 %% 1000, 0) / 100.0, i * 10000000000::bigint, i / 7.0, i %% 11 FROM generate_series(%s::int, %s::int) i
"""


@pytest.mark.stack
def test_results_are_what_sql_over_the_source_says(live: LiveSource, remote: str, session: SparkSession, tmp_path: Path) -> None:
    own = replace(live, name="windowed")
    with own.connection() as connection:
        connection.execute(
            "CREATE TABLE windowed (id int PRIMARY KEY, city text, kind boolean, sold_at timestamptz, total numeric(10,2), "
            "pieces bigint, weight float8, buyer int)"
        )
        connection.execute(_INSERT, (1, 300))
        connection.execute("UPDATE windowed SET sold_at = NULL WHERE id % 50 = 0")
        with small_chain(own, remote, session, tmp_path / "lake", [TABLE]) as chain:
            assert told(chain) == (0, {"windows_equal_batch": True, "windows_equal_source": True}, 0)
            choice = random.Random(5)
            for first in (301, 341):
                connection.execute(_INSERT, (first, first + 39))
                connection.execute("DELETE FROM windowed WHERE id %% 17 = %s", (choice.randrange(17),))
                connection.execute(
                    "UPDATE windowed SET total = total + 1, sold_at = sold_at - interval '2 days' WHERE id % 13 = 1"
                )
                chain.advance()
                (windows,) = windows_of(chain.source)
                assert is_behind(str(chain.root), windows)
                assert told(chain) == (0, {"windows_equal_batch": True, "windows_equal_source": True}, 0)
                assert not is_behind(str(chain.root), windows)
            rewritten_rows_are_seen(chain, windows.spec(str(chain.root)).path)


def rewritten_rows_are_seen(chain: SmallChain, path: str) -> None:
    held = len(rows(path))
    DeltaTable(path).update(updates={"sales": "sales + 1"}, predicate="city = 'São Paulo' AND kind")
    damaged = len([row for row in rows(path) if row["city"] == "São Paulo" and row["kind"]])
    assert 0 < damaged < held
    # At the first look a difference may be one that is on its way.
    assert told(chain) == (damaged, {"windows_equal_batch": False, "windows_equal_source": True}, damaged)
    assert told(chain) == (damaged, {"windows_equal_batch": False, "windows_equal_source": False}, 0)


def told(chain: SmallChain) -> tuple[int, dict[str, bool], int]:
    """Materialized and checked by Dagster: results that differ from the batch; what the checks say; suspects at this look."""
    source = chain.source
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDC_LAKE", str(chain.root))
        made: list[Any] = [build_windows_assets(source), *batch_check.build(source), *sums_check.build(source)]
        result = dg.materialize(made, resources={"platform": chain.platform}, raise_on_error=False)
    evaluations = {found.check_name: found for found in result.get_asset_check_evaluations()}
    assert len(evaluations) == 2, result
    passed = {name: found.passed for name, found in sorted(evaluations.items())}
    differing = evaluations["windows_equal_batch"].metadata["cdc/results_differing"].value
    return differing, passed, evaluations["windows_equal_source"].metadata["cdc/results_differing_now"].value  # type: ignore[return-value]
