"""The schema ledgers of silver and its history in the backup: when they are written, and what a restore is given."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdc_assets.backup.object_layout import columns_key, history_columns_key
from cdc_assets.backup.verification import verify_backup
from cdc_assets.clients.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.clients.object_store import MissingObjectError, ObjectStore
from cdc_assets.recovery.column_history import back_up_columns, begin_history
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import Source
from cdc_assets.registry.table_declaration import Table
from cdc_assets_tests.backup.faulty_store import FaultyStore
from spark.silver import history_versions
from spark.silver.column_ledger import PROPERTY, TRACKED, ColumnChange, ColumnLedger
from spark.specs import Column, SilverSpec
from spark.table.delta_table import table_of
from spark.table.table_folder import open_folder

SILVER, HISTORY = columns_key("shop", "orders"), history_columns_key("shop", "orders")
ID, GONE = Column("id", "bigint", False, number=1), Column("gone", "text", number=2)


def ledger(*kinds: str) -> ColumnLedger:
    """One whose columns have had these changes since the table's birth."""
    found = ColumnLedger(()).grown((ID, GONE), [ColumnChange("create", "id", "", "bigint", "")], at="2026", after="")
    for kind in kinds:
        found = found.grown((ID, GONE), [ColumnChange(kind, "gone", "text", "", "")], at="2026", after="1")
    return found


@dataclass
class Shop:
    """A table with a history, and where its silver and its backup lie."""

    source: Source
    table: Table
    store: ObjectStore
    lake: str

    def make(self, path: str, told: ColumnLedger, **more: str) -> None:
        shutil.rmtree(path, ignore_errors=True)
        open_folder(path).make()
        table_of(path).create(pa.table({"id": pa.array([1], pa.int64())}), {PROPERTY: told.to_text(), **more}, "")

    def silver(self, *kinds: str) -> None:
        self.make(names.silver_path(self.lake, self.source, self.table), ledger(*kinds))

    def history(self, *kinds: str) -> None:
        self.make(names.history_path(self.lake, self.source, self.table), ledger(*kinds), **{TRACKED: '["gone"]'})

    def back_up(self) -> tuple[bool, str, str]:
        """Whether something was written, and what is there then."""
        written = back_up_columns(self.store, self.lake, self.source, self.table)
        return written, self.held(SILVER), self.held(HISTORY)

    def held(self, key: str) -> str:
        try:
            return self.store.get(key).decode()
        except MissingObjectError:
            return ""

    def given(self, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
        """What a restore begins the history with."""
        found = list[dict[str, str]]()

        def note(_: object, __: SilverSpec, properties: dict[str, str]) -> bool:
            found.append(properties)
            return True

        monkeypatch.setattr(history_versions, "seed_history", note)
        catalogue = CatalogueTable(self.table.id, (CatalogueColumn("id", "bigint", False, "", 1),), ("id",))
        platform: Any = WithoutSpark(self.lake)
        assert begin_history(platform, self.store, self.source, self.table, catalogue) == bool(found)
        return found


@dataclass
class WithoutSpark:
    """A platform that runs what it is given without a session."""

    lake: str

    def spark(self) -> WithoutSpark:
        return self

    def run(self, job: Any, spec: SilverSpec) -> Any:
        return job(None, spec)


@pytest.fixture
def made(shop: Source, store: ObjectStore, tmp_path: Path) -> Shop:
    table = shop.tables[0].model_copy(update={"history": "scd2"})
    return Shop(shop.model_copy(update={"tables": (table,)}), table, store, str(tmp_path / "lake"))


def test_what_has_not_changed_is_not_written(made: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert made.back_up() == (False, "", "")
    made.silver()
    made.history()
    assert made.back_up() == (False, "", "")
    assert made.given(monkeypatch) == []


def test_the_history_has_a_ledger_of_its_own(made: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It began after the drop: silver's ledger tells of it, and its own of nothing."""
    made.silver("drop")
    assert made.back_up() == (True, ledger("drop").to_text(), "")
    assert made.given(monkeypatch) == [{PROPERTY: ledger("drop").to_text()}], "a backup without a history"
    made.history()
    written, _, history = made.back_up()
    assert (written, json.loads(history)) == (True, {PROPERTY: ledger().to_text(), TRACKED: '["gone"]'})
    assert not made.back_up()[0]
    assert made.given(monkeypatch) == [json.loads(history)]
    assert [key for key in (SILVER, HISTORY) if any(key in each for each in _differences(made))] == []


@pytest.mark.parametrize(
    "past",
    [
        {"columns": (ID, replace(GONE, name="now", formerly=("gone",)))},
        {"orders": (("", (("gone", 2), ("id", 1))), ("0000.1", (("id", 1), ("gone", 2))))},
        {"renewed": "0000.1"},
    ],
)
def test_what_a_replay_keeps_of_older_events_is_written(made: Shop, past: dict[str, Any]) -> None:
    """Its ledger begins anew, with no entry of the changes before: without it a restore lacks a renamed column's values."""
    told = replace(ledger(), **past)
    made.make(names.silver_path(made.lake, made.source, made.table), told)
    assert made.back_up() == (True, told.to_text(), "")


def _differences(made: Shop) -> tuple[str, ...]:
    return verify_backup(made.store, source="shop", table="orders", bronze_path=None).differences


def test_a_table_that_was_made_again_replaces_what_is_kept(made: Shop) -> None:
    """By a replay with the columns of now: the ledger that the backup has would bring the old ones back."""
    made.silver("drop")
    made.history("drop")
    made.back_up()
    made.silver()
    made.history()
    written, silver, history = made.back_up()
    assert (written, silver, json.loads(history)[PROPERTY]) == (True, ledger().to_text(), ledger().to_text())


@pytest.mark.parametrize(("born", "asked"), [(timedelta(days=1), [SILVER, HISTORY]), (timedelta(days=8), [])])
def test_an_old_table_that_never_changed_costs_no_request(made: Shop, born: timedelta, asked: list[str]) -> None:
    told = ledger().to_text().replace("2026", (datetime.now(timezone.utc) - born).strftime("%Y-%m-%dT%H:%M:%SZ"))
    for path in (names.silver_path, names.history_path):
        made.make(path(made.lake, made.source, made.table), ColumnLedger.from_text(told))
    requests = list[tuple[str, str]]()
    store = FaultyStore(made.store, at_each=lambda operation, key: requests.append((operation, key)))
    assert not back_up_columns(store, made.lake, made.source, made.table)
    assert requests == [("get", key) for key in asked]


@pytest.mark.parametrize("text", ["no json", "{}", '{"cdc.schema": "{}"}', "[]", "1"])
def test_what_is_no_ledger_is_refused(made: Shop, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    made.store.put(HISTORY, text.encode())
    with pytest.raises(RefusalError, match=f"{HISTORY} is no schema ledger: .*; bring it back, or remove it"):
        made.given(monkeypatch)


def test_a_table_without_a_history_has_none(made: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    made.silver("drop")
    made.back_up()
    made.table = made.table.model_copy(update={"history": None})
    assert made.given(monkeypatch) == []
