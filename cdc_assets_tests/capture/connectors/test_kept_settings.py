"""A connector's config beside the settings that its source declares."""

from __future__ import annotations

import pytest

from cdc_assets.capture.connectors.debezium_settings import NAMED_COLUMNS
from cdc_assets.capture.connectors.setting_overrides import with_settings

OURS = {"name": "shop-capture", **NAMED_COLUMNS}


@pytest.mark.parametrize("listed", ["public.orders.(id|v)", "(kept)"])
def test_a_list_of_columns_that_is_declared_stands_alone(listed: str) -> None:
    """Debezium refuses a connector that has both lists."""
    found = with_settings(OURS, {"column.include.list": listed})
    assert set(found) == {"name", "column.include.list"}


def test_without_one_ours_stays_or_is_what_is_declared() -> None:
    assert with_settings(OURS, {"column.include.list": None}) == OURS
    assert with_settings(OURS, {"column.exclude.list": "public.orders.v"})["column.exclude.list"] == "public.orders.v"
    assert "column.exclude.list" not in with_settings(OURS, {"column.exclude.list": None})
