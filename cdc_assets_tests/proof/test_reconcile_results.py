"""Shares of large tables, what a result says and hides, and which tables the command takes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from cdc_assets.cli.verbs.reconcile import _share
from cdc_assets.clients.delta_log import SilverState
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.check_results import of_reconciliation
from cdc_assets.proof import compared_slices, comparison, source_sides
from cdc_assets.proof.compared_slices import MOST_OPEN, advance_cursors, share_at, with_earlier
from cdc_assets.proof.compared_table import ComparisonRequest
from cdc_assets.proof.comparison_result import DIFFERENT, EQUAL, INCONCLUSIVE, RowDifference, TableResult, Veil
from cdc_assets.registry.durable_file import read_json, replace_json
from cdc_assets.registry.source_declaration import Source
from spark.proof.key_order import KeyRange, TwoRanges
from spark.proof.row_text import RowText
from spark.specs import Column, SilverSpec

FOUND = RowDifference("1;", "differs", {"id": "1", "mail": "a@b"}, {"id": "1", "mail": None}, "silver")


def test_all_shares_come_in_turn() -> None:
    seen = [share_at(61, every=300, now=1_700_000_000 + 300 * i) for i in range(61)]
    assert sorted(seen) == [(part, 61) for part in range(61)]


def test_sensitive_values_are_hidden_and_still_told_apart() -> None:
    hidden = Veil(("mail",)).over(FOUND, ("id",))
    assert hidden.columns == ("mail",)
    assert "a@b" not in str(hidden)
    assert hidden.source != Veil(("mail",)).over(FOUND, ("id",)).source
    assert Veil(("id",)).over(FOUND, ("id",)).key.startswith("hash:")


def test_evidence() -> None:
    counts = {"snapshot": "1:1:", "lsn": "0/1", "silver_version": 3, "source_rows": 2, "silver_rows": 2, "buckets": 2}
    assert of_reconciliation(TableResult("s/t", EQUAL, **counts))[:2] == (True, "equal at 0/1, 2 rows in the source, 2 in silver")
    two_step = TableResult("s/t", EQUAL, lsn="t 0:3", source_rows=2, silver_rows=2, method="two-step", suspects=3)
    told = of_reconciliation(two_step)[2]
    assert (told["cdc/method"], told["cdc/suspects"], told["cdc/in_flight"], told["cdc/source_lsn"]) == (
        "two-step",
        3,
        0,
        "t 0:3",
    )
    assert not {"cdc/source_snapshot", "cdc/silver_version"} & set(told)
    assert two_step.sentence() == "equal in two steps (3 suspects read again), 2 rows in the source, 2 in silver"
    ranges = replace(two_step, method="cut", looked_up=1, suspects=0)
    assert ranges.sentence() == "equal at t 0:3, 2 rows in the source, 2 in silver, 1 key of silver looked up in the source"
    assert of_reconciliation(ranges)[2]["cdc/keys_looked_up"] == 1
    assert "buckets" not in replace(ranges, verdict=DIFFERENT).sentence()
    differing = TableResult("s/t", DIFFERENT, **counts, buckets_differing=1, keys_differing=1, differences=(FOUND,))
    # Dagster's event log has the key; what the rows hold only where that is declared (show: values).
    assert "a@b" not in str(of_reconciliation(differing))
    (by_key,) = of_reconciliation(differing)[2]["cdc/differences"].records
    assert {"key", "kind", "columns"} <= set(by_key.data)
    passed, text, metadata = of_reconciliation(differing, values=True)
    assert not passed
    assert text.startswith("1 key differs at 0/1, 2 rows in the source, 2 in silver: 1 differs; 1 of 2 buckets")
    (record,) = metadata["cdc/differences"].records
    assert record.data["source"] == '{"mail": "a@b"}'
    assert of_reconciliation(TableResult("s/t", INCONCLUSIVE, reason="it is so"))[1] == "inconclusive: it is so"


def test_long_values_are_told_apart_and_not_stored_whole() -> None:
    """A hundred keys with documents of a megabyte are not stored with each evaluation of a check."""
    rows = [{"id": "1", "doc": "x" * 1_000_000 + end} for end in "ab"]
    told = replace(FOUND, source=rows[0], silver=rows[1])
    counts = {"source_rows": 1, "silver_rows": 1}
    metadata = of_reconciliation(TableResult("s/t", DIFFERENT, **counts, keys_differing=1, differences=(told,)), values=True)[2]
    (record,) = metadata["cdc/differences"].records
    assert record.data["source"] != record.data["silver"]
    assert len(str(record.data)) < 2_000
    assert "1,000,001 characters" in str(record.data["silver"])


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "x/y", "1/0"])
def test_shares_are_checked(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="PART/PARTS"):
        _share(text)
    assert _share("2/2") == (1, 2)


def test_a_cursor_outlives_a_restart_and_belongs_to_its_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    assert compared_slices.last_compared_key("s", "t", ("id",)) is None
    compared_slices.keep_ends("s", {"t": (("id",), (7,)), "u": (("a", "b"), ("ü;'", -1))})
    compared_slices.keep_ends("s", {})
    assert (compared_slices.last_compared_key("s", "t", ("id",)), compared_slices.last_compared_key("s", "u", ("a", "b"))) == (
        (7,),
        ("ü;'", -1),
    )
    assert compared_slices.last_compared_key("s", "t", ("other",)) is None
    compared_slices.keep_ends("s", {"t": (("id",), None)})
    assert (compared_slices.last_compared_key("s", "t", ("id",)), compared_slices.last_compared_key("s", "u", ("a", "b"))) == (
        None,
        ("ü;'", -1),
    )
    ranges = {"v": TwoRanges(KeyRange(("id",), None, ("ß",)), KeyRange(("id",), ("1:a;",), ("2:b;",)))}
    results = {"v": TableResult("s/v", EQUAL)}
    advance_cursors(Source.model_construct(source="s"), ranges, results)
    assert compared_slices.last_compared_key("s", compared_slices.cursor_of_source("v"), ("id",)) == ("ß",)
    assert compared_slices.last_compared_key("s", compared_slices.cursor_of_silver("v"), ("id",)) == ("2:b;",)
    # The one has come to its end, the other goes on; and neither where nothing could be compared.
    ranges = {"v": TwoRanges(KeyRange(("id",), ("ß",)), KeyRange(("id",), ("2:b;",), ("2:c;",)))}
    advance_cursors(Source.model_construct(source="s"), ranges, {"v": TableResult("s/v", INCONCLUSIVE)})
    assert compared_slices.last_compared_key("s", compared_slices.cursor_of_source("v"), ("id",)) == ("ß",)
    advance_cursors(Source.model_construct(source="s"), ranges, results)
    assert (
        compared_slices.last_compared_key("s", compared_slices.cursor_of_source("v"), ("id",)),
        compared_slices.last_compared_key("s", compared_slices.cursor_of_silver("v"), ("id",)),
    ) == (
        None,
        ("2:c;",),
    )
    (file,) = (tmp_path / "reconciliation").iterdir()
    file.write_text("{")
    assert compared_slices.last_compared_key("s", "u", ("a", "b")) is None


def numbers(after: int | None, to: int | None) -> KeyRange:
    return KeyRange(("id",), None if after is None else (after,), None if to is None else (to,))


PARTS: dict[str, list[Any]] = {
    "ranges": [numbers(None, 9), numbers(9, 20), numbers(20, None)],
    "two ranges": [TwoRanges(KeyRange(("id text",), None, ("b",)), KeyRange(("id text",), ("1:a;",))) for _ in "a"]
    + [TwoRanges(KeyRange(("id text",), ("b",)), KeyRange(("id text",), ("1:a;",), ("1:c;",)))],
    "shares": [(0, 3), (1, 3), (2, 3)],
}


def judge(verdicts: dict[Any, str]) -> Callable[[str, Any], TableResult]:
    counts = {"source_rows": 1, "silver_rows": 1}
    return lambda table, part: TableResult(f"s/{table}", verdicts.get(part, EQUAL), reason="no", keys_differing=1, **counts)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", PARTS)
def test_a_difference_stays_red_until_it_is_mended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    """Each run compares another part; the one that differed is compared again with each of them, also after a restart."""
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    first, *others = PARTS[kind]

    def run(part: Any, verdicts: dict[Any, str]) -> TableResult:
        compare = judge(verdicts)
        return with_earlier("s", {"t": part}, {"t": compare("t", part)}, compare)["t"]

    damaged = {first: DIFFERENT}
    assert run(others[0], {}).verdict == EQUAL
    assert not (tmp_path / "reconciliation").exists()
    assert (run(first, damaged).verdict, run(first, damaged).earlier) == (DIFFERENT, False)
    for part in (*others, *others):
        told = run(part, damaged)
        assert (told.verdict, told.earlier, told.share in ("1/3", getattr(first, "text", ""))) == (DIFFERENT, True, True)
        assert "still differ" in told.sentence()
    told = run(others[-1], {first: INCONCLUSIVE})
    assert (told.verdict, told.sentence().startswith("a part that differed before (share ")) == (INCONCLUSIVE, True)
    # Both differ; the one of this run is the one that is shown, and each is forgotten once it is equal.
    assert not run(others[-1], {first: DIFFERENT, others[-1]: DIFFERENT}).earlier
    assert run(first, {others[-1]: DIFFERENT}).earlier
    assert run(first, {}).verdict == EQUAL
    assert run(others[-1], {}).verdict == EQUAL
    assert read_json(tmp_path / "reconciliation" / "s.differing.json") == {}


def test_a_part_of_another_key_is_forgotten_and_few_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    parts = [numbers(i, i + 1) for i in range(MOST_OPEN + 3)]
    compare = judge(dict.fromkeys(parts, DIFFERENT))
    for part in parts:
        with_earlier("s", {"t": part}, {"t": compare("t", part)}, compare)
    kept = (tmp_path / "reconciliation" / "s.differing.json").read_text()
    assert kept.count('"range"') == MOST_OPEN
    other = KeyRange(("no",), (1,))
    assert with_earlier("s", {"t": other}, {"t": compare("t", other)}, compare)["t"].verdict == EQUAL
    # And of a table that is compared whole, where it was read.
    with_earlier("s", {"t": parts[0]}, {"t": compare("t", parts[0])}, compare)
    whole = {"t": TableResult("s/t", EQUAL)}
    assert with_earlier("s", {}, whole, compare) == whole
    replace_json(tmp_path / "reconciliation" / "s.differing.json", {"t": [{"what": 1}]})
    assert with_earlier("s", {"t": parts[0]}, whole, compare) == whole


def test_a_key_that_is_another_than_its_range_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one table: it ended the comparison of all with a stack trace."""
    source = Source.model_validate(
        {
            "source": "s",
            "database": {"kind": "postgresql", "host": "h", "dbname": "d", "user": "u", "password": {"secret": "s"}},
            "tables": [{"name": "public.t"}],
        }
    )
    columns = (Column("number", "integer", False),)
    text = RowText(SilverSpec("s", "t", "-", "-", columns, ("number",)))

    class Cut:
        def digest(self, table: Any, row_text: RowText, part: Any) -> Any:
            return row_text.slice_sql(part)

    database = SimpleNamespace(tables=lambda ids: dict.fromkeys(ids, object()))
    monkeypatch.setattr(comparison, "silver_state", lambda _: None)
    monkeypatch.setattr(comparison, "bronze_committed", lambda _: None)
    monkeypatch.setattr(source_sides, "open_cut", lambda *_, **__: nullcontext(Cut()))
    monkeypatch.setattr(comparison, "existing", lambda *_: (SilverState(None, 0, 0), None))
    monkeypatch.setattr(comparison, "row_text", lambda *_: text)
    connect = SimpleNamespace(config=lambda _: {})
    platform: Any = SimpleNamespace(lake="lake", database=lambda _: database, core_connect=lambda _: connect)
    told = comparison.compare_rows(Chain(platform, source), source.tables, ComparisonRequest({"t": numbers(None, 9)}))["t"]
    assert told.verdict == INCONCLUSIVE
    assert told.reason == "the key is number now, and was id: run it again"
