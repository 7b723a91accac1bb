"""Which models MariaDB's connector does not find again, by the GTIDs of its schema history and of its offset."""

from __future__ import annotations

from typing import Any

import pytest

from cdc_assets.capture.model_differences import has_gtids, lost_model
from cdc_assets.clients.schema_history import models_in_order
from cdc_assets.registry.field_types import TableId

TABLE = TableId("shop", "orders")
OFFSET = {"file": "binlog.000002", "pos": 900, "gtids": "0-1-31"}


def record(pos: int, gtids: str | None, *columns: str) -> dict[str, Any]:
    listed = [{"name": name, "typeName": "INT", "optional": True} for name in ("id", *columns)]
    change = {"type": "ALTER", "id": '"shop"."orders"', "table": {"columns": listed}}
    position = {"file": "binlog.000002", "pos": pos} | ({"gtids": gtids} if gtids else {})
    return {"position": position, "ddl": f"statement at {pos}", "tableChanges": [change]}


@pytest.mark.parametrize(
    ("records", "gtid"),
    [
        ([record(100, "0-1-10")], ""),
        ([record(100, "0-1-10"), record(200, "0-77-20", "n")], "0-77-20"),
        # Its columns were written down again since, by the server of now.
        ([record(200, "0-77-20", "n"), record(300, "0-1-25", "n")], ""),
        ([record(200, "0-77-20"), record(300, "0-1-25", "n")], ""),
        # The snapshot's record has none; what lies behind the offset is read again.
        ([record(100, None)], ""),
        ([record(100, None), record(950, "0-77-32", "n")], ""),
        ([record(100, None), record(200, "0-1-10,7-1-3", "n")], "0-1-10,7-1-3"),
        # It would find none at all, and does not read a row by another.
        ([record(100, "0-77-10"), record(200, "0-77-20", "n")], ""),
        ([record(100, "0-77-10")], ""),
        # MySQL's sets have all that was ever written.
        ([record(100, "8b1a:1-5")], ""),
    ],
)
def test_a_model_is_lost_if_another_server_id_wrote_it(records: list[dict[str, Any]], gtid: str) -> None:
    models = models_in_order(records, [TABLE])[TABLE]
    lost = lost_model(models, OFFSET)
    assert (lost.gtid if lost else "") == gtid
    if lost:
        assert f"GTID {gtid}" in lost.text
        assert "goes on from 0-1-31" in lost.text


def test_an_offset_is_asked_for_only_where_a_model_could_be_lost() -> None:
    told = [has_gtids(models_in_order([record(100, gtids)], [TABLE])[TABLE]) for gtids in ("0-1-10", "8b1a:1-5", None)]
    assert told == [True, False, False]
    assert not has_gtids(())
