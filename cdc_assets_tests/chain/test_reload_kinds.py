"""`cdc repair bronze`: which sources it can have read again, and what it says of the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.chain.table_reload import ask_source
from cdc_assets.registry.errors import TopicGapError
from cdc_assets.registry.loader import load_source

DATABASE = """
source: shop
database: {{kind: {kind}, host: db, user: cdc, password: {{secret: shop}}{more}}}
tables: [{{name: shop.orders}}]
"""
TOPICS = """
source: shop
kind: topics
tables: [{name: orders, topic: shop.orders, envelope: json, columns: {id: bigint}}]
"""


@pytest.mark.parametrize(("kind", "more"), [("postgresql", ", dbname: shop"), ("mariadb", ""), ("mysql", "")])
def test_a_table_of_these_kinds_is_read_again(tmp_path: Path, kind: str, more: str) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(DATABASE.format(kind=kind, more=more))
    source = load_source(file)
    assert ask_source(source, "topic core.shop was recreated") is source


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (TOPICS, "but nobody can be asked to send a topic's records again"),
        (
            DATABASE.format(kind="sqlserver", more=", dbname: shop"),
            "but this reads tables of postgresql, mariadb, mysql again, not of kind sqlserver; cdc reconcile shop names",
        ),
    ],
)
def test_of_others_it_is_said_what_stands_in_the_way(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(text)
    with pytest.raises(TopicGapError, match="^topic core.shop was recreated; ") as refused:
        ask_source(load_source(file), "topic core.shop was recreated")
    assert told in str(refused.value)
