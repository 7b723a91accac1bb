"""What `cdc snapshot` refuses before it asks anybody, and how its command is given again."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cdc_assets.capture.onboarding.snapshot import in_parentheses
from cdc_assets.capture.onboarding.snapshot_again import Reading
from cdc_assets.cli.cdc_command import app
from cdc_assets_tests.support.declared import declare

OWN = """
source: shop
database: {kind: postgresql, host: db, dbname: shop, user: cdc, password: {secret: shop}}
tables: [{name: public.orders}]
"""
MARIADB = """
source: shop
database: {kind: mariadb, host: db, user: cdc, password: {secret: shop}}
tables: [{name: shop.orders}]
"""
ORACLE = """
source: shop
database: {kind: oracle, host: db, dbname: ORCL, user: cdc, password: {secret: shop}}
tables: [{name: SALES.ORDERS, keys: [ID], columns: {ID: bigint not null}}]
"""
TOPICS = """
source: shop
kind: topics
tables: [{name: orders, topic: shop.orders, envelope: json, columns: {id: bigint}}]
"""


@pytest.mark.parametrize(
    ("text", "arguments", "code", "told"),
    [
        (OWN, ["public.gone"], 2, "a new one is taken in by: cdc onboard shop public.gone"),
        (OWN, ["orders", "--blocking", "--where", "id = 1"], 1, "--where goes with the reading by chunks only"),
        (MARIADB, ["shop.orders", "--blocking"], 1, "leave --blocking out"),
        (ORACLE, ["SALES.ORDERS", "--blocking"], 1, "nobody has looked at the offset that its connector stores"),
        (TOPICS, ["orders"], 1, "is a source of topics: nobody can be asked for its rows again"),
    ],
)
def test_it_is_refused_with_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, arguments: list[str], code: int, told: str
) -> None:
    declare(tmp_path, monkeypatch, text)
    done = CliRunner().invoke(app, ["snapshot", "shop", *arguments])
    said = " ".join(f"{done.output} {done.exception}".replace("│", " ").split())
    assert (done.exit_code, told in said) == (code, True), said


def test_the_command_is_given_again_as_it_was() -> None:
    reading = Reading(("public.orders", 'public."Big Lines"'), where="note = 'it''s'")
    assert reading.command("shop") == (
        """cdc snapshot shop public.orders 'public."Big Lines"' --where 'note = '"'"'it'"'"''"'"'s'"'"''"""
    )
    assert Reading(("a.b",), "blocking").command("shop") == "cdc snapshot shop a.b --blocking"


def test_a_comment_does_not_swallow_the_bracket() -> None:
    assert in_parentheses("id = 1 -- only one") == "(id = 1 -- only one\n)"
