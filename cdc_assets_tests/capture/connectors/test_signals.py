"""Which tables a signal to Debezium can name."""

from __future__ import annotations

import re

import pytest

from cdc_assets.capture.connectors.debezium_signals import collection, is_unsignallable
from cdc_assets.registry.field_types import TableId
from cdc_assets_tests.support.row_servers import source_of


@pytest.mark.parametrize("name", ["orders", "a$b", "naïve", "a-b", "a(x", "a[x]", "Upper", "x" * 63])
def test_a_name_is_matched_and_no_other(name: str) -> None:
    table = TableId("public", name)
    assert not is_unsignallable(table)
    for kind, database in (("mysql", ""), ("sqlserver", "shop.")):
        pattern = collection(source_of(kind), table)
        assert re.fullmatch(pattern, f"{database}public.{name}")
        assert not re.fullmatch(pattern, f"{database}public_{name}")


@pytest.mark.parametrize("name", ["a b", "we.ird", 'say "hi"', "it's", "a`b", "a\u00a0b"])
def test_a_name_that_is_parsed_into_another_is_known(name: str) -> None:
    assert is_unsignallable(TableId("public", name))
    assert is_unsignallable(TableId(name, "orders"))
