"""Every kind of damage, each in a row of its own, written over a silver table of `id`, `amount` and `note`."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

Rows = dict[int, dict[str, Any]]
PLANTED = {
    **{"100;": "missing", "101;": "differs", "102;": "differs", "103;": "differs", "104;": "differs", "105;": "differs"},
    **{"106;": "differs", "8000;": "phantom", "108;": "twice"},
}


def damaged(rows: Rows) -> list[dict[str, Any]]:
    """Each kind of damage in a row of its own."""
    del rows[100]  # a row lost
    rows[101]["note"] = "note of old"  # a stale row
    rows[102]["note"] = rows[102]["note"][:4]  # a truncated value
    rows[103]["amount"] += Decimal("0.01")  # off by one unit
    rows[104]["amount"] = Decimal("0.00")  # was NULL
    rows[105]["id"], rows[106]["id"] = 106, 105  # a swapped pair
    phantom = {**rows[106], "id": 8000}  # a delete that was lost
    return [*rows.values(), phantom, rows[108]]  # and a row twice


def plant(path: str) -> None:
    """Damage silver, behind the back of everything that writes it."""
    whole = DeltaTable(path).to_pyarrow_table()
    rows = damaged({row["id"]: row for row in whole.to_pylist()})
    write_deltalake(path, pa.Table.from_pylist(rows, schema=whole.schema), mode="overwrite")
