"""A year of commits in bronze and in silver: once maintenance has been, whoever reads their logs is as fast as with new ones.

Measured in CPU seconds of this process, which neighbours hardly change. `cdc bench --scenario year` measures whole cycles.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable

from benchmarks.bench.year import age
from cdc_assets.chain.lag import records_behind
from cdc_assets.clients import delta_log
from cdc_assets.clients.delta_log import bronze_committed, silver_committed
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.recovery.maintenance import maintain_source, plan_source
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.recovery.shop_logs import SOURCE, Shop
from cdc_assets_tests.support.declared import declare_source
from spark.bronze.part_files import find_missing_ranges
from spark.specs import BronzeSpec
from spark.table.delta_table import table_of
from spark.upkeep.log_expiry import list_log

YEAR, PART = 300_000, 20_000
TIMES, KEPT = 9, 720 + 8_640 + 100
"""Commits of two hours, one each ten seconds, and at most a day's below them to the next checkpoint."""
RATIO, NOISE_SECONDS = 1.5, 0.002


def cpu_seconds(act: Callable[[], object]) -> float:
    """The median of some times, each with nothing kept from the last."""
    took = []
    for _ in range(TIMES):
        delta_log._KEPT.clear()
        before = time.process_time()
        act()
        took.append(time.process_time() - before)
    return statistics.median(took)


class Measured:
    """What a cycle, a tick and maintenance itself ask the logs."""

    def __init__(self, shop: Shop) -> None:
        self.shop, self.silver, self.bronze = shop, str(shop.silver("orders")), str(shop.bronze)

    def tick(self) -> None:
        """As the sensor and `cdc status`."""
        committed = bronze_committed(self.bronze)
        assert committed is not None
        state = committed.topics[self.shop.topic("orders")]
        assert records_behind(self.shop.lake, self.shop.source, self.shop.source.table("orders"), state) == 0

    def seconds(self) -> dict[str, float]:
        return {
            "tick": cpu_seconds(self.tick),
            "silver's place": cpu_seconds(partial(silver_committed, self.silver)),
            "files of silver": cpu_seconds(table_of(self.silver).snapshot),
            "files of bronze": cpu_seconds(table_of(self.bronze).snapshot),
            "what a batch looks at": cpu_seconds(partial(find_missing_ranges, BronzeSpec(self.bronze, "", (), "op"))),
            "opened by delta-rs": cpu_seconds(partial(DeltaTable, self.silver)),
        }

    def cycle(self) -> None:
        self.shop.append("orders")
        self.shop.fold("orders")


@pytest.mark.all
@pytest.mark.parametrize("commits", [PART, YEAR])
def test_a_year_leaves_logs_as_fast_as_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commits: int) -> None:
    source = declare_source(tmp_path, monkeypatch, SOURCE.replace("1h", "2h"), Source)
    shop = Shop(tmp_path, source)
    measured = Measured(shop)
    # As many as a reader looks at first, with a checkpoint.
    for _ in range(60):
        measured.cycle()
    list(maintain_source(Chain(Platform(), source)))
    new = measured.seconds()
    told = [bronze_committed(measured.bronze), silver_committed(measured.silver)]
    for path, version in ((measured.bronze, None), (measured.silver, table_of(measured.bronze).snapshot().version)):
        age(path, commits, bronze_version=version)
    began = time.monotonic()
    done = {table.name: result for table, result in maintain_source(Chain(Platform(), source))}
    took = time.monotonic() - began
    for place in ("bronze/shop", f"silver/shop/{names.table_name(source.table('orders'))}"):
        assert done[place].given_up == {}
        assert done[place].commits_expired > commits - KEPT
    for path in (measured.bronze, measured.silver):
        assert len(list_log(path).commits) < KEPT
    for before, now in zip(told, (bronze_committed(measured.bronze), silver_committed(measured.silver)), strict=True):
        assert before is not None
        assert now is not None
        assert now.topics == before.topics
    old = measured.seconds()
    print(f"{commits} commits, maintained in {took:.1f} s; CPU seconds new and old:", {n: (new[n], old[n]) for n in new})
    # delta-rs lists a log's folder whenever it opens a table, as long as time travel has made it.
    assert new.pop("opened by delta-rs")
    slow = {name: (new[name], old[name]) for name in new if old[name] > RATIO * new[name] + NOISE_SECONDS}
    assert not slow
    assert not [
        table.name for table, plan in plan_source(Chain(Platform(lake_root=str(shop.lake)), source)) if plan.expire_commits
    ]
