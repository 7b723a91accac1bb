"""Windows of a ledger go once they are older than declared; those that do not balance stay."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cdc_assets.clients.delta_log import ledger_counted
from cdc_assets.proof.event_ledger import read_windows
from cdc_assets.recovery.maintenance import tables_in_lake
from cdc_assets.registry import names
from cdc_assets.registry.errors import RegistryError
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.recovery.ledger_rows import append, window
from cdc_assets_tests.support.declared import declare, declare_source
from spark.proof.ledger_contract import fold_ledger
from spark.table.delta_table import table_of
from spark.upkeep.row_retention import OldWindows, remove_old_windows
from spark.upkeep.table_maintenance import maintain, plan_table

SOURCE = """
source: shop
database: {kind: postgresql, host: db, dbname: shop, user: u, password: {secret: shop}}
ledger: {keep: 40d}
tables: [{name: public.orders}]
"""
DAY = 86_400


def begins(lake: str, source: Source) -> list[int]:
    return [int(each.start.timestamp()) for each in read_windows(lake, source, source.tables[0])]


def test_old_windows_go_and_those_out_of_balance_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, lake = declare_source(tmp_path, monkeypatch, SOURCE, Source), str(tmp_path / "lake")
    path, now = names.ledger_path(lake, source), int(time.time()) // 60 * 60
    ages = (80, 60, 41, 39, 1)
    append(path, [window(now - days * DAY, mirror=2 if days == 60 else 3) for days in ages[:3]])
    append(path, [window(now - days * DAY) for days in ages[3:]])
    before = ledger_counted(path)
    [of_ledger] = tables_in_lake(lake, source)
    assert plan_table(of_ledger.spec).rows == 2
    assert maintain(of_ledger.spec).rows_removed == 2
    assert begins(lake, source) == [now - days * DAY for days in (60, 39, 1)]
    assert ledger_counted(path) == before
    # Once a day at most: files are written anew for it.
    [again] = tables_in_lake(lake, source)
    assert (plan_table(again.spec).rows, maintain(again.spec).rows_removed) == (0, 0)


def test_without_a_word_all_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, lake = declare_source(tmp_path, monkeypatch, SOURCE.replace("40d", "null"), Source), str(tmp_path / "lake")
    path = names.ledger_path(lake, source)
    append(path, [window(0), window(60)])
    [of_ledger] = tables_in_lake(lake, source)
    assert maintain(of_ledger.spec).rows_removed == 0
    assert begins(lake, source) == [0, 60]


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ("ledger: {keep: 7d}", "30d at least"),
        ("ledger: {keep: 40d}\ntopics: {retention: 50d}", "is not longer than topics.retention"),
        ("maintenance: {time_travel: 10m}", "1h at least"),
    ],
)
def test_less_than_is_needed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: str, told: str) -> None:
    file = declare(tmp_path, monkeypatch, SOURCE.replace("ledger: {keep: 40d}", declared))
    with pytest.raises(RegistryError, match=told):
        load_source(file)


def test_what_was_counted_is_known_after_months_without_an_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each day of them is a commit of maintenance, and none of the ledger."""
    source, lake = declare_source(tmp_path, monkeypatch, SOURCE, Source), str(tmp_path / "lake")
    path, now = names.ledger_path(lake, source), int(time.time())
    append(path, [window(now)])
    before = ledger_counted(path)
    assert before
    for day in range(60):
        assert remove_old_windows(path, table_of(path).snapshot(), OldWindows(until=(day + 1) * DAY)) == 0
    assert table_of(path).snapshot().version >= 60
    assert ledger_counted(path) == before
    # The job that counts reads the same log: it would count all of it twice.
    assert table_of(path).fold(fold_ledger).tables == before
