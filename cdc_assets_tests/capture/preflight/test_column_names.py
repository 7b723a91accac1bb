"""Columns that the declaration names and the table has not."""

from __future__ import annotations

from cdc_assets.capture.preflight.capturable_tables import column_name_findings
from cdc_assets.registry.table_declaration import Table


def test_where_asks_for_a_column_in_vain() -> None:
    where = [{"column": "region", "one_of": ["EU"]}, {"column": "gone", "none_of": [1]}]
    declared = Table.model_validate({"name": "public.orders", "where": where})
    [found] = column_name_findings(declared, ["id", "region"])
    assert (found.check, found.level, found.message) == (
        "columns",
        "fail",
        "where asks for gone, and it has no such column; it has: id, region",
    )
    assert [*column_name_findings(declared, ["id", "region", "gone"])] == []
