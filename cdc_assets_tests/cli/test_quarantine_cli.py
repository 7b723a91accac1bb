"""`cdc quarantine` on a table of records as silver leaves it: what is listed, shown, and counted by the check."""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner

from cdc_assets.capture.log_position import LogPosition
from cdc_assets.chain.quarantine import quarantine_records, records_given_up
from cdc_assets.cli.cdc_command import app
from cdc_assets.cli.verbs import stream_and_wait
from cdc_assets.defs.volumetry_checks import quarantine_evidence
from cdc_assets.registry.loader import load_sources

SOURCE = """
source: shop
database: {kind: postgresql, host: db, dbname: shop, user: u, password: {secret: shop}}
tables: [{name: public.orders}, {name: public.lines}]
"""
SEEN = dt.datetime(2026, 11, 21, 9, 0, tzinfo=dt.timezone.utc)


def record(offset: int, error_class: str, **more: Any) -> dict[str, Any]:
    facts = {"topic": "core.shop.public.orders", "partition": 0, "offset": offset, "position": f"p{offset}", "op": "u"}
    facts |= {"row_key": f'{{"id":{offset % 2}}}', "error_class": error_class, "column": "n", "message": "does not fit"}
    facts |= {
        "epoch": 0,
        "schema_id": None,
        "first_seen": SEEN,
        "key": b'{"id":1}',
        "value": b"\xffbytes",
        "redriven_at": None,
        "dropped_at": None,
        "superseded_by": None,
    }
    return facts | more


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "shop.yaml").write_text(SOURCE)
    monkeypatch.setenv("CDC_SOURCES", str(sources))
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CDC_LAKE", str(tmp_path / "lake"))
    rows = [record(3, "value"), record(1, "envelope", row_key=None), record(5, "value"), record(7, "value", dropped_at=SEEN)]
    schema = pa.schema(
        [(name, pa.timestamp("us", tz="UTC") if name.endswith(("_at", "_seen")) else kind) for name, kind in _kinds().items()]
    )
    write_deltalake(str(tmp_path / "lake" / "quarantine" / "shop" / "orders"), pa.Table.from_pylist(rows, schema=schema))
    return tmp_path / "lake"


def _kinds() -> dict[str, pa.DataType]:
    kinds = {
        "partition": pa.int32(),
        "epoch": pa.int32(),
        "offset": pa.int64(),
        "schema_id": pa.int32(),
        "key": pa.binary(),
        "value": pa.binary(),
    }
    return {name: kinds.get(name, pa.string()) for name in record(0, "value")}


def ask(*words: str) -> Any:
    result = CliRunner().invoke(app, ["quarantine", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.usefixtures("lake")
def test_list_and_show() -> None:
    assert [row["offset"] for row in json.loads(ask("list", "-o", "json"))] == [1, 3, 5]
    assert [row["offset"] for row in json.loads(ask("list", "shop/orders", "--class", "value", "-o", "json"))] == [3, 5]
    states = {row["offset"]: row["state"] for row in json.loads(ask("list", "shop", "--all", "-o", "json"))}
    assert states == {1: "open", 3: "open", 5: "open", 7: "dropped"}
    assert ask("list", "shop/lines").strip() == "nothing is in quarantine"
    (shown,) = json.loads(ask("show", "shop/orders", "5"))
    assert (shown["key"], shown["value"], shown["state"]) == ('{"id":1}', "\\xffbytes", "open")


@pytest.mark.usefixtures("lake")
def test_dry_runs_do_nothing() -> None:
    # Neither needs Spark or the source: both would fail here.
    for verb in ("redrive", "drop"):
        answer = json.loads(ask(verb, "shop/orders", "--class", "value", "--dry-run", "-o", "json"))
        assert (answer["chosen"], answer["dry_run"]) == (2, True)
    result = CliRunner().invoke(app, ["quarantine", "list", "shop/none"])
    assert result.exit_code == 2


def poison(lake: Path, **facts: Any) -> None:
    path = str(lake / "quarantine" / "shop" / "orders")
    schema = pa.schema([(field.name, field.type) for field in pa.schema(DeltaTable(path).schema())])
    write_deltalake(path, pa.Table.from_pylist([{**record(21, "value"), **facts}], schema=schema), mode="append")


def test_a_hostile_value_hides_nothing_of_the_list(lake: Path) -> None:
    """A closing tag of rich's markup ended the whole listing, and a terminal obeyed what it was sent."""
    poison(lake, message="[/x][link=http://evil]a[/link]\x1b]52;c;eA==\x1b\\\x9b2J", row_key="\x1b]0;own\x07")
    shown = ask("list")
    assert "[/x][link=http://evil]" in "".join(shown.split())
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown)
    assert r"\x1b]0;own\x07" in "".join(shown.split())


def test_values_of_sensitive_columns_are_hashes(lake: Path) -> None:
    file = lake.parent / "sources" / "shop.yaml"
    file.write_text(file.read_text().replace("public.orders", "public.orders, sensitive: [n]", 1))
    told = "column 'n' of type numeric(20,2), value 'SSN-123-45-6789': it does not fit the type"
    early = SEEN - dt.timedelta(days=1)
    poison(lake, message=told, row_key='["SSN-123-45-6789"]', value=b'{"n":"SSN-123-45-6789"}', first_seen=early)
    for words in (("list",), ("list", "-o", "json"), ("show", "shop/orders", "21")):
        assert "SSN" not in ask(*words), words
    assert "SSN-123" in ask("show", "shop/orders", "21", "--show-sensitive")
    (source,) = load_sources(lake.parent / "sources")
    (orders,) = (table for table in source.tables if table.sensitive)
    assert "SSN" not in str(quarantine_evidence(source, orders, quarantine_records(str(lake), source, orders)))


@pytest.mark.slow
def test_a_listing_ends_as_it_should(lake: Path) -> None:
    """It was: exit code -6 in about three of ten ("terminate called without an active exception"), after the right output."""
    quarantine = str(lake / "quarantine" / "shop" / "orders")
    for offset in range(11, 16):
        schema = DeltaTable(quarantine).schema()
        write_deltalake(quarantine, pa.Table.from_pylist([record(offset, "value")], schema=pa.schema(schema)), mode="append")
    listing = [sys.executable, "-m", "cdc_assets.cli", "quarantine", "list", "-o", "json"]
    for _ in range(4):
        both = [subprocess.Popen(listing, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        for each in both:
            out, error = each.communicate(timeout=120)
            assert (each.returncode, error, len(json.loads(out))) == (0, "", 8)


def test_the_check_counts_what_is_open(lake: Path) -> None:
    (source,) = load_sources(lake.parent / "sources")
    orders, lines = source.tables
    passed, text, figures = quarantine_evidence(source, orders, quarantine_records(str(lake), source, orders))
    assert not passed
    assert text == "3 records in quarantine since 2026-11-21 09:00, 1 row in doubt: cdc quarantine list shop/orders"
    assert (figures["cdc/quarantined"], figures["cdc/records_of_unknown_rows"]) == (3, 1)
    assert quarantine_evidence(source, lines, quarantine_records(str(lake), source, lines))[0]


def test_records_from_before_the_table_was_read_again_are_settled(lake: Path) -> None:
    """An epoch begins with the whole table. A later event of the same epoch leaves its record to a person."""
    poison(lake, offset=8, superseded_by="0000.0000000002")
    poison(lake, offset=9, superseded_by="0001.")
    poison(lake, offset=10, superseded_by="000a.0000000002", epoch=10)
    assert [row["offset"] for row in json.loads(ask("list", "-o", "json"))] == [1, 3, 5, 8, 10]
    assert {9: "read again"}.items() <= {
        row["offset"]: row["state"] for row in json.loads(ask("list", "--all", "-o", "json"))
    }.items()
    (source,) = load_sources(lake.parent / "sources")
    _, _, figures = quarantine_evidence(source, source.tables[0], quarantine_records(str(lake), source, source.tables[0]))
    assert figures["cdc/quarantined"] == 5


def test_what_was_given_up_is_told_by_runs_of_offsets(lake: Path) -> None:
    """For the backup: no record and no other table tells what a person has decided."""
    (shop,) = load_sources(lake.parent / "sources")
    assert records_given_up(str(lake), shop) == {"orders": {"core.shop.public.orders": {"0": [[7, 7]]}}}


def test_wait_names_the_table_that_silver_lacks_records_of(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It said that everything committed before is in silver."""
    position = LogPosition("m", "0/1A2B", {})
    monkeypatch.setattr(stream_and_wait, "wait_caught_up", lambda *_, **__: {"shop": position})
    told = CliRunner().invoke(app, ["wait", "shop"])
    assert told.exit_code == 0, (told.output, told.exception)
    assert "shop: everything committed before 0/1A2B is in silver, but for what is in quarantine\n" in told.stdout
    assert "shop/orders: 3 records in quarantine: cdc quarantine list shop/orders\n" in told.stdout
    answer = json.loads(CliRunner().invoke(app, ["wait", "shop", "-o", "json"]).stdout)
    assert answer["sources"]["shop"]["quarantined"] == {"orders": 3}
