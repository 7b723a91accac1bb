"""Windows as the registry declares them: what the job is told, and what is refused by file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.chain.windowed_results import can_ask, windows_of
from cdc_assets.registry.errors import RegistryError
from cdc_assets.registry.loader import load_source
from spark.upkeep.declared_windows import Measure

GOOD = """\
source: shop
database: {kind: postgresql, host: db, dbname: shop, user: u, password: {secret: s}}
tables:
  - name: sales.orders
    sensitive: [email]
    windows:
      - name: per_hour
        event_time: created_at
        size: 1h
        every: 15m
        by: [city]
        measures: {orders: count, revenue: sum total, customers: distinct customer id}
        delay: 30s
        allowed_lateness: 1d
      - {name: arrivals, event_time: _cdc_source_ts, size: 1m, measures: {rows: count}}
"""


def load(folder: Path, text: str) -> Path:
    file = folder / "shop.yaml"
    file.write_text(text)
    return file


def test_what_the_job_is_told(tmp_path: Path) -> None:
    hourly, arrivals = windows_of(load_source(load(tmp_path, GOOD)))
    assert hourly.key == ("windows", "shop", "windows_sales__orders__per_hour")
    spec = hourly.spec("/lake/")
    assert (spec.silver_path, spec.path) == ("/lake/silver/shop/sales__orders", "/lake/windows/shop/sales__orders__per_hour")
    assert (spec.panes_path, spec.size, spec.every) == (f"{spec.path}__panes", 3600, 900)
    assert (spec.delay, spec.allowed_lateness, spec.by) == (30, 86_400, ("city",))
    assert spec.measures == (
        *(Measure("orders", "count"), Measure("revenue", "sum", "total")),
        Measure("customers", "distinct", "customer id"),
    )
    assert arrivals.spec("/lake").every == 60
    # SQL of the source has no column that silver adds.
    assert [can_ask(hourly), can_ask(arrivals)] == [True, False]


@pytest.mark.parametrize(
    ("wrong", "right", "message"),
    [
        ("every: 15m", "every: 25m", "does not begin every 1500 s a whole number of times"),
        ("orders: count", "orders: counted", "measure orders: 'counted' is none of count, sum, min, max, distinct"),
        ("sum total", "sum", "measure revenue: sum needs a column"),
        ("size: 1m", "size: 1500ms", "size: 1.5 s is no whole number of seconds"),
        ("by: [city]", "by: [window_end]", "the name window_end is a window's own"),
        ("name: arrivals", "name: per_hour", "windows: per_hour is there twice"),
        ("by: [city]", "by: [email]", "windows.per_hour shows values of email, which is declared sensitive"),
        ("sum total", "max email", "windows.per_hour shows values of email, which is declared sensitive"),
        ("measures: {rows: count}", "measures: {}", "measures"),
        ("delay: 30s", "delai: 30s", "unknown key"),
    ],
)
def test_what_is_refused(tmp_path: Path, wrong: str, right: str, message: str) -> None:
    assert wrong in GOOD
    with pytest.raises(RegistryError) as refused:
        load_source(load(tmp_path, GOOD.replace(wrong, right)))
    assert message in str(refused.value)


def test_a_sensitive_column_may_be_counted(tmp_path: Path) -> None:
    (hourly, _) = windows_of(load_source(load(tmp_path, GOOD.replace("customer id", "email"))))
    assert hourly.spec("/lake").measures[2] == Measure("customers", "distinct", "email")
