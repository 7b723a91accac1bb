"""What a notebook is given: data frames, hashes for what is sensitive, rows of old versions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_assets.cli.verbs.lake_queries import copy_notebooks
from cdc_assets.reading.notebook_frames import ask, rows_of
from cdc_assets.registry.errors import RefusalError
from cdc_assets_tests.support.lake.delta_shop import write_shop


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in write_shop(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path / "lake"


def test_a_statement_is_a_data_frame(lake: Path) -> None:
    found = ask("SELECT id FROM silver.shop.orders ORDER BY id", limit=3)
    assert found["id"].tolist() == [1, 2, 3]
    assert found.attrs == {"more": True}
    assert "silver.shop.order" in set(ask()["table"])
    with pytest.raises(RefusalError, match=r"no table silver\.shop\.nothing"):
        ask("FROM silver.shop.nothing")


def test_a_version_is_read_as_it_was(lake: Path) -> None:
    path = lake / "silver/shop/orders"
    before = DeltaTable(path)
    write_deltalake(path, pa.table(before.to_pyarrow_table().slice(0, 1)), mode="overwrite")
    now, then = rows_of("shop", "orders"), rows_of("shop", "orders", version=before.version())
    assert (len(now), now.attrs["version"]) == (1, before.version() + 1)
    assert sorted(then["id"]) == [1, 2, 3, 4]
    assert {str(value)[:5] for value in then["customer"].dropna()} == {"hash:"}


def test_what_is_not_there_is_named(lake: Path) -> None:
    with pytest.raises(RefusalError, match="at version 99"):
        rows_of("shop", "orders", version=99)
    with pytest.raises(RefusalError, match="silver.shop.nothing is no table of the registry"):
        rows_of("shop", "nothing")


def test_a_notebook_of_yours_is_not_copied_over(tmp_path: Path) -> None:
    names = ["event_time.ipynb", "look_at_a_chain.ipynb", "what_changed.ipynb"]
    assert [path.name for path in copy_notebooks(tmp_path / "own")] == names
    (tmp_path / "own" / names[0]).write_text("mine")
    (tmp_path / "own" / names[1]).unlink()
    assert [path.name for path in copy_notebooks(tmp_path / "own")] == names[1:2]
    assert (tmp_path / "own" / names[0]).read_text() == "mine"
