"""`cdc reconcile`: its exit codes, and what it says to machines; the comparisons themselves are played."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.cli.verbs import reconcile
from cdc_assets.defs.check_results import of_reconciliation
from cdc_assets.proof.comparison_result import DIFFERENT, EQUAL, IN_QUARANTINE, INCONCLUSIVE, RowDifference, TableResult
from cdc_assets.registry.errors import DatabaseError, MissingAddressError
from cdc_assets_tests.support.declared import declare

YAML = """\
source: shop
owners: ["team:data"]
database: {kind: postgresql, host: db, dbname: shop, user: u, password: {secret: shop}}
tables: [{name: public.a}, {name: public.b}]
"""
COUNTED: dict[str, Any] = {"snapshot": "7:7:", "lsn": "0/99", "silver_version": 3, "source_rows": 2, "silver_rows": 2}
RESULTS = {
    EQUAL: TableResult("shop/t", EQUAL, **COUNTED, buckets=2),
    DIFFERENT: TableResult(
        "shop/t",
        DIFFERENT,
        **COUNTED,
        buckets=2,
        buckets_differing=1,
        keys_differing=1,
        differences=(RowDifference("1;", "differs", {"id": "1", "v": "a"}, {"id": "1", "v": None}, "silver"),),
    ),
    INCONCLUSIVE: TableResult("shop/t", INCONCLUSIVE, reason="silver/shop/silver_b does not exist yet; materialize it first"),
}


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declare(tmp_path, monkeypatch, YAML)


def played(monkeypatch: pytest.MonkeyPatch, *verdicts: str) -> None:
    def compared(chain: Any, tables: Sequence[Any], _: Any) -> dict[str, TableResult]:
        return {t.id.table: RESULTS[v] for t, v in zip(tables, verdicts, strict=True)}

    monkeypatch.setattr(reconcile, "compare_rows", compared)


@pytest.mark.parametrize("output", ["json", "text"])
@pytest.mark.parametrize(
    ("verdicts", "code"),
    [
        ((EQUAL, EQUAL), 0),
        ((EQUAL, DIFFERENT), 1),
        ((INCONCLUSIVE, DIFFERENT), 1),
        ((EQUAL, INCONCLUSIVE), 2),
        ((INCONCLUSIVE, INCONCLUSIVE), 2),
    ],
)
def test_the_exit_code_says_it(monkeypatch: pytest.MonkeyPatch, verdicts: tuple[str, ...], code: int, output: str) -> None:
    played(monkeypatch, *verdicts)
    told = CliRunner().invoke(app, ["reconcile", "shop", "-o", output])
    assert told.exit_code == code
    if output == "json":
        assert [r["verdict"] for r in json.loads(told.stdout)] == list(verdicts)
    else:
        assert ("inconclusive: silver/shop/silver_b does not exist yet" in told.stdout) == (INCONCLUSIVE in verdicts)


def test_what_is_not_compared_of_topics_is_said(tmp_path: Path) -> None:
    """By the reading itself: for machines with exit code 2, and in the check's sentence."""
    columns = "columns: {id: integer not null, v: text}"
    tables = {
        "events": f"envelope: event-json, keys: [id], {columns}",
        "documents": f"envelope: debezium-mongodb, keys: [id], {columns}",
        "parts": f"envelope: json, keys: [id], ignore_null_updates: true, {columns}",
        "arrivals": f"envelope: json, {columns}",
        "rows": f"envelope: json, keys: [id], {columns}",
    }
    listed = "".join(f"  - {{name: {name}, topic: {name}, {form}}}\n" for name, form in tables.items())
    (tmp_path / "sources" / "feeds.yaml").write_text(f"source: feeds\nkind: topics\ncluster: lake\ntables:\n{listed}")
    told = CliRunner().invoke(app, ["reconcile", "feeds", "-o", "json"])
    assert told.exit_code == 2
    found = {r["table"]: (r["verdict"], r["reason"]) for r in json.loads(told.stdout)}
    wanted = {
        "events": "records in event-json are not read a second time; those that are: ",
        "documents": "records in debezium-mongodb are not read a second time; those that are: ",
        "parts": "ignore_null_updates: parts of rows are not put together a second time",
        "arrivals": "arrivals has no key: the two-step method reads keys again",
        "rows": "CDC_LAKE_BOOTSTRAP is not set",
    }
    assert {t: v for t, (v, _) in found.items()} == dict.fromkeys((f"feeds/{name}" for name in wanted), INCONCLUSIVE)
    assert all(found[f"feeds/{name}"][1].startswith(why) for name, why in wanted.items()), found
    why = found["feeds/events"][1]
    passed, sentence, metadata = of_reconciliation(TableResult("feeds/events", INCONCLUSIVE, reason=why))
    assert (passed, sentence, metadata["cdc/error"]) == (False, f"inconclusive: {why}", why)


def test_machines_read_what_was_compared_at_which_position(monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch, DIFFERENT)
    (told,) = json.loads(CliRunner().invoke(app, ["reconcile", "shop.a", "-o", "json"]).stdout)
    assert (told["lsn"], told["snapshot"], told["source_rows"], told["silver_rows"], told["buckets"]) == ("0/99", "7:7:", 2, 2, 2)
    (found,) = told["differences"]
    assert (found["key"], found["columns"], found["source"], found["silver"]) == (
        "1;",
        ["v"],
        {"id": "1", "v": "a"},
        {"id": "1", "v": None},
    )


def test_what_stands_in_the_way_is_no_difference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Exit code 2, never 1; and what was found of the other sources is told."""

    def compared(chain: Any, tables: Sequence[Any], _: Any) -> dict[str, TableResult]:
        if chain.source.name == "other":
            raise DatabaseError("the standby is none")
        return {t.id.table: RESULTS[EQUAL] for t in tables}

    (tmp_path / "sources" / "other.yaml").write_text(YAML.replace("source: shop", "source: other"))
    monkeypatch.setattr(reconcile, "compare_rows", compared)
    told = CliRunner().invoke(app, ["reconcile", "-o", "json"])
    found = [(r["verdict"], r["reason"]) for r in json.loads(told.stdout)]
    assert (told.exit_code, sorted(found)) == (2, [(EQUAL, "")] * 2 + [(INCONCLUSIVE, "the standby is none")] * 2)

    def absent() -> None:
        raise MissingAddressError("CDC_LAKE", "the lake", is_of_stack=True)

    monkeypatch.setattr("cdc_assets.registry.settings.export_stack_environment", absent)
    told = CliRunner().invoke(app, ["reconcile", "shop"])
    assert (told.exit_code, "CDC_LAKE is not set" in told.stderr) == (2, True)
    monkeypatch.setattr("cdc_assets.cli.verb_frame.Platform", lambda: 1 // 0)
    monkeypatch.setattr("cdc_assets.registry.settings.export_stack_environment", lambda: None)
    assert CliRunner().invoke(app, ["reconcile", "shop"]).exit_code == 2


def test_sources_that_are_not_compared_unless_named_are_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    feeds = "source: feeds\nkind: topics\ncluster: lake\ntables:\n  - {name: a, topic: a, envelope: json, columns: {id: text}}\n"
    (tmp_path / "sources" / "feeds.yaml").write_text(feeds)
    played(monkeypatch, EQUAL, EQUAL)
    told = CliRunner().invoke(app, ["reconcile"])
    assert (told.exit_code, "not compared unless named: feeds" in told.stderr) == (0, True)
    (tmp_path / "sources" / "shop.yaml").unlink()
    told = CliRunner().invoke(app, ["reconcile"])
    assert (told.exit_code, "feeds" in told.stderr) == (2, True)


def test_values_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like markup is neither obeyed nor refused: `[/b]` ended the command with a stack trace."""
    rows = {"id": "[b]1", "v": "a [/b]"}, {"id": "[b]1", "v": "[red]a"}
    found = RowDifference("5:[b]1;", "differs", *rows, "silver")
    part = "keys > [/i] and <= [b]"
    result = TableResult("shop/t", DIFFERENT, **COUNTED, keys_differing=1, differences=(found,), share=part)
    monkeypatch.setitem(RESULTS, DIFFERENT, result)
    played(monkeypatch, DIFFERENT)
    told = CliRunner().invoke(app, ["reconcile", "shop.a"])
    assert told.exit_code == 1
    assert all(text in told.stdout for text in ("5:[b]1;", "a [/b]", "[red]a", part)), told.output


@pytest.mark.parametrize(
    "wrong",
    [["nobody"], ["shop.c"], ["shop", "--share", "3/2"], ["shop", "--share", "\u00b2/8"], ["shop", "-o", "yaml"]],
)
def test_what_is_asked_wrongly_is_a_usage_error(wrong: list[str]) -> None:
    told = CliRunner().invoke(app, ["reconcile", *wrong])
    assert told.exit_code == 2
    assert "Traceback" not in told.output


def test_who_has_damage_in_quarantine_is_told_where_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch, DIFFERENT)
    assert "quarantine" not in CliRunner().invoke(app, ["reconcile", "shop.a"]).stdout
    (difference,) = RESULTS[DIFFERENT].differences
    aside = replace(RESULTS[DIFFERENT], differences=(replace(difference, where=IN_QUARANTINE),))
    monkeypatch.setitem(RESULTS, DIFFERENT, aside)
    told = CliRunner().invoke(app, ["reconcile", "shop.a"]).stdout
    assert "why records are in quarantine: cdc quarantine list shop/t" in told
