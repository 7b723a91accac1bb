"""The ledger as people get it: panes written by delta-rs, sums by plain Python, the verb, the checks, the picture."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from PIL import Image
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.clients import schema_ledger
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs import ledger_assets as checks
from cdc_assets.defs.ledger_assets import hop_results, ledger_keys
from cdc_assets.defs.ledger_assets import ledger_metadata as metadata_of
from cdc_assets.proof import event_ledger
from cdc_assets.proof.event_ledger import SourceLedger, WindowCount, read_windows, topics_with_compaction
from cdc_assets.proof.ledger_plot import png
from cdc_assets.registry import names
from cdc_assets.registry.display_text import in_markdown
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.declared import declare_source
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic
from spark.proof.ledger_contract import FATES, HOPS, LINKS, Counted, ledger_metadata
from spark.silver.column_ledger import ColumnLedger
from spark.specs import Column
from spark.table.commit_metadata import Folded

BEGIN = dt.datetime(2026, 3, 1, tzinfo=dt.timezone.utc)
YAML = """\
source: shop
owners: ["team:data"]
database: {kind: postgresql, host: db, dbname: shop, user: u, password: {secret: shop}}
tables: [{name: public.orders}]
"""


def pane(minute: int, op: str, n: int, kind: str = "early", **more: Any) -> dict[str, Any]:
    """One row of the ledger in which everything balances, unless `more` says otherwise."""
    counts = {**dict.fromkeys(FATES, 0), **dict.fromkeys(LINKS, n), "applied": n}
    hops = {f"{hop}_{part}": value for hop in HOPS for part, value in (("n", n), ("ms_sum", 1500 * n), ("ms_max", 4000))}
    start = BEGIN + dt.timedelta(minutes=minute)
    row = {"table": "orders", "window_start": start, "op": op, "pane": kind, "counted_at": start, **counts, **hops}
    return {**row, "late_by_ms_max": 90_000 if kind.endswith("late") else 0, **more}


def write(lake: Path, rows: list[dict[str, Any]], **place: Any) -> None:
    types = {"table": pa.string(), "op": pa.string(), "pane": pa.string()}
    moments = ("window_start", "counted_at")
    schema = pa.schema([(n, types.get(n, pa.timestamp("us", "UTC") if n in moments else pa.int64())) for n in rows[0]])
    counted = Counted(**{"silver_version": 3, "operation_id": "o", "folded": {}, "watermark": 0, **place})
    said = CommitProperties(custom_metadata={"userMetadata": ledger_metadata("op", {"orders": counted})})
    path = str(lake / "ledger" / "shop")
    write_deltalake(path, pa.Table.from_pylist(rows, schema=schema), mode="append", commit_properties=said)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    return declare_source(tmp_path, monkeypatch, YAML)


@pytest.mark.parametrize(("window", "minutes"), [("1m", 1), ("1h", 60), ("1d", 1440)])
def test_windows_are_the_sums_of_their_panes(shop: Source, tmp_path: Path, window: str, minutes: int) -> None:
    chance = random.Random(window)
    rows = [pane(chance.randrange(4000), chance.choice("cud"), chance.randint(-3, 9)) for _ in range(500)]
    write(tmp_path / "lake", rows)
    expected: Counter[tuple[dt.datetime, str]] = Counter()
    for row in rows:
        since = int((row["window_start"] - BEGIN).total_seconds()) // 60 // minutes * minutes
        expected[BEGIN + dt.timedelta(minutes=since), row["op"]] += row["bronze"]
    found = read_windows(str(tmp_path / "lake"), shop, shop.tables[0], window=window)
    assert {(w.start, w.op): w.counts["applied"] for w in found} == dict(expected)


def checked(shop: Source, tmp_path: Path) -> dict[str, tuple[bool, str]]:
    keys = ledger_keys(shop, shop.tables[0])
    lake = str(tmp_path / "lake")
    found = hop_results(lake, shop, shop.tables[0], keys, SourceLedger(lake, shop))
    return {r.check_name or "": (r.passed, r.description or "") for r in found}


def test_what_does_not_balance_is_red_and_named(shop: Source, tmp_path: Path) -> None:
    assert all(passed for passed, _ in checked(shop, tmp_path).values())
    lake = tmp_path / "lake"
    write(lake, [pane(0, "c", 5), pane(0, "u", 2)])
    assert all(passed for passed, _ in checked(shop, tmp_path).values())
    write(lake, [pane(1, "c", 3, topic=4), pane(7, "d", 2, applied=1, unaccounted=1)])
    found = checked(shop, tmp_path)
    text = "1 window out of balance; the first is 2026-03-01 00:01 c: 4 in topic, 3 in mirror"
    assert found["topic_mirror"] == (False, text)
    assert found["mirror_bronze"][0]
    assert found["bronze_fates"] == (False, text.replace("00:01 c: 4 in topic, 3 in mirror", "00:07 d: 2 in bronze, 1 in fates"))
    assert found["late_events"] == (True, "no event came late")
    write(lake, [pane(1, "c", 1, "too_late"), pane(0, "c", 1, "late")])
    passed, said = checked(shop, tmp_path)["late_events"]
    assert not passed
    assert said.startswith("2 events changed 2 closed windows, up to 90 s after their end; 1 of them later")


def test_a_ledger_that_was_never_counted_is_not_green(shop: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It passed with "nothing is counted yet", and was one of the checks that stand for success."""
    table = shop.tables[0]
    told = [
        (r.passed, r.severity.value)
        for r in hop_results(str(tmp_path), shop, table, ledger_keys(shop, table), SourceLedger(str(tmp_path), shop))
    ]
    assert told == [(True, "WARN")] * 4
    monkeypatch.setattr(checks, "silver_committed", lambda _: object())
    told = [
        (r.passed, r.severity.value)
        for r in hop_results(str(tmp_path), shop, table, ledger_keys(shop, table), SourceLedger(str(tmp_path), shop))
    ]
    assert told == [(False, "WARN")] * 4
    assert checks.keys_without_ledger(str(tmp_path / "lake"), shop) == set(ledger_keys(shop, table))
    write(tmp_path / "lake", [pane(0, "c", 5)])
    assert checks.keys_without_ledger(str(tmp_path / "lake"), shop) == set()


def test_what_was_not_counted_is_neither_equal_nor_different(shop: Source, tmp_path: Path) -> None:
    write(tmp_path / "lake", [pane(0, "c", 5, topic=None, mirror=None)], uncounted="retention removed offsets 0 to 4")
    found = checked(shop, tmp_path)
    assert found["topic_mirror"] == (False, "not counted: retention removed offsets 0 to 4")
    assert found["bronze_fates"][0]
    assert CliRunner().invoke(app, ["ledger", "shop/orders"]).exit_code == 2


def test_the_verb(shop: Source, tmp_path: Path) -> None:
    missing = CliRunner().invoke(app, ["ledger", "shop/orders"])
    assert (missing.exit_code, "cdc ledger shop/orders --count" in missing.stderr) == (2, True)
    write(tmp_path / "lake", [pane(0, "c", 5), pane(61, "u", 2), pane(62, "u", 1, "late")])
    told = CliRunner().invoke(app, ["ledger", "shop/orders", "--window", "1h", "-o", "json"])
    answer = json.loads(told.stdout)
    assert told.exit_code == 0
    assert answer["balanced"]
    assert [(w["window_start"][11:16], w["op"], w["bronze"], w["late"]) for w in answer["windows"]] == [
        ("00:00", "c", 5, 0),
        ("01:00", "u", 3, 1),
    ]
    assert answer["windows"][1]["lag"]["silver"] == {"mean_seconds": 1.5, "max_seconds": 4.0}
    text = CliRunner().invoke(app, ["ledger", "shop/orders"]).stdout
    assert "ok  bronze_fates: 8 events in bronze and in fates, equal in every window" in text
    write(tmp_path / "lake", [pane(3, "u", 2, mirror=1)])
    assert CliRunner().invoke(app, ["ledger", "shop/orders"]).exit_code == 1
    assert "'other'; it has: orders" in CliRunner().invoke(app, ["ledger", "shop/other"]).output
    for name in ("shop.orders", "orders", "public.orders"):
        assert json.loads(CliRunner().invoke(app, ["ledger", name, "-o", "json"]).stdout)["table"] == "shop/orders"
    for wrong, said in (("else.orders", "no source else"), ("nothing", "no source has a table nothing")):
        assert said in CliRunner().invoke(app, ["ledger", wrong]).output


def test_a_window_is_shown_whole_or_not_at_all(shop: Source, tmp_path: Path) -> None:
    now = dt.datetime.now(dt.timezone.utc)
    hours = now.replace(minute=0, second=0, microsecond=0)
    starts = [hours - dt.timedelta(hours=3), hours - dt.timedelta(hours=2), hours - dt.timedelta(minutes=61), hours]
    write(tmp_path / "lake", [pane(0, "c", 5, window_start=start) for start in starts])
    asked = ["ledger", "shop/orders", "-o", "json", "--last"]
    since = f"{int((now - starts[1]).total_seconds() // 60) - 30}m"  # half an hour into the second of these windows
    found = json.loads(CliRunner().invoke(app, [*asked, since]).stdout)["windows"]
    assert [(dt.datetime.fromisoformat(w["window_start"]), w["bronze"]) for w in found] == [(starts[1], 10), (hours, 5)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "wrong", [["--last", "soon"], ["--last", "99999999999d"], ["--plot", "/nowhere/x.png"], ["--again"], ["-o", "xml"]]
)
def test_what_is_asked_wrongly_is_a_usage_error(shop: Source, tmp_path: Path, wrong: list[str]) -> None:
    write(tmp_path / "lake", [pane(0, "c", 5)])
    told = CliRunner().invoke(app, ["ledger", "shop/orders", *wrong])
    assert told.exit_code == 2
    assert "Traceback" not in told.output, told.output


def test_triggers_and_lateness_are_settings(shop: Source, tmp_path: Path) -> None:
    """Early panes are shown or not; what comes later than allowed warns, fails or is taken; the lateness is the job's."""
    closed_until = int((BEGIN + dt.timedelta(minutes=60)).timestamp() * 1e6)
    write(tmp_path / "lake", [pane(0, "c", 5, "on_time"), pane(61, "u", 2), pane(3, "d", 1, "too_late")], watermark=closed_until)
    file = tmp_path / "sources" / "shop.yaml"

    def told(declared: str) -> tuple[list[str], tuple[bool, Any]]:
        file.write_text(f"{YAML}ledger: {{{declared}}}\n")
        source = load_source(file)
        key = ledger_keys(source, source.tables[0])[-1]
        lake = str(tmp_path / "lake")
        (late,) = hop_results(lake, source, source.tables[0], [key], SourceLedger(lake, source))
        shown = json.loads(CliRunner().invoke(app, ["ledger", "shop/orders", "-o", "json"]).stdout)["windows"]
        return [w["window_start"][11:16] for w in shown], (late.passed, late.severity.value)

    assert told("early: true") == (["00:00", "00:00", "01:00"], (False, "WARN"))
    assert told("early: false, late: fail") == (["00:00", "00:00"], (False, "ERROR"))
    assert told("late: accept")[1][0]
    file.write_text(f"{YAML}ledger: {{allowed_lateness: 10m, every: 5m}}\n")
    source = load_source(file)
    assert (source.ledger.allowed_lateness.total_seconds(), source.ledger.every.total_seconds()) == (600, 300)


@pytest.mark.parametrize("keys", [("id",), ()])
def test_events_of_a_table_that_is_gone_are_counted(
    shop: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: tuple[str, ...]
) -> None:
    """Silver folds them as the table was known last; the ledger left the table out, and its checks stayed green."""
    known = ColumnLedger((Column("id", "integer", False), Column("v", "text")), keys=keys)
    monkeypatch.setattr(schema_ledger, "ledger_of", {names.silver_path(str(tmp_path), shop, shop.tables[0]): known}.get)
    monkeypatch.setattr(event_ledger, "silver_committed", lambda _: Folded(3, {}, version=7))
    monkeypatch.setattr(event_ledger, "catalogue_of", lambda *_: {})
    table, delete = shop.tables[0], {"cleanup.policy": "delete"}
    topics = (names.topic(shop, table), names.lake_topic(shop, table))
    cluster: Any = FakeKafka({name: FakeTopic("id", {0: [(b"k", b"v")]}, config=delete) for name in topics})

    class Lake(Platform):
        def lake_kafka(self, _: str = "") -> Any:
            return cluster

        core_kafka = lake_kafka

    (told,) = event_ledger.ledger_spec(Chain(Lake(lake_root=str(tmp_path)), shop), shop.tables).tables
    assert ([c.name for c in told.silver.columns], told.silver.keys, told.upto) == (["id", "v"], keys, 7)


def test_a_compacted_topic_is_named() -> None:
    policies = {"a": "delete", "b": "compact", "c": "compact,delete"}
    cluster: Any = FakeKafka({n: FakeTopic("id", {}, config={"cleanup.policy": policy}) for n, policy in policies.items()})
    assert topics_with_compaction(cluster, [*policies]) == {"b", "c"}
    assert cluster.asked_configs == 1
    assert topics_with_compaction(cluster, []) == frozenset()


@pytest.mark.slow
def test_the_picture(shop: Source, tmp_path: Path) -> None:
    rows = [pane(m, op, 5, "late" if m % 9 == 0 else "early") for m in range(240) for op in "cud"]
    write(tmp_path / "lake", rows)
    target = tmp_path / "plot.png"
    assert CliRunner().invoke(app, ["ledger", "shop/orders", "--window", "1m", "--plot", str(target)]).exit_code == 0
    data = target.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert (int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")) == (1000, 750)
    assert len(png([], title="empty", window="1m", dpi=40)) > 500


def test_the_asset_shows_the_picture_in_dagster(shop: Source, tmp_path: Path) -> None:
    """By Dagster's own markdown: an image within its address, and small, since each materialization stores it."""
    write(tmp_path / "lake", [pane(m * 60, op, 5) for m in range(24 * 7) for op in "cud"])
    lake = str(tmp_path / "lake")
    shown = metadata_of(SourceLedger(lake, shop), shop, shop.tables[0])["cdc/plot"].value
    title, _, data = shown.removesuffix(")").partition("](data:image/png;base64,")
    assert title == f"![{in_markdown('shop/orders, windows of 1h (UTC)')}"
    picture = Image.open(io.BytesIO(base64.b64decode(data)))
    assert (picture.format, picture.width) == ("PNG", 640)
    assert len(data) < 20_000


def test_few_late_events_keep_their_colours() -> None:
    """One bar of a pixel, and the legend, in a picture of many others."""
    found = [WindowCount(BEGIN + dt.timedelta(minutes=m), "u", {"bronze": 50}, lag={"silver": (1, 2.0 + m)}) for m in range(1400)]
    found[9].too_late = 1
    picture = Image.open(io.BytesIO(png(found, title="a day", window="1m", width=8.0, dpi=80))).convert("RGB")
    seen = [colour for _, colour in picture.getcolors(1 << 24) or []]
    for wanted in ((193, 18, 31), (233, 196, 106)):
        assert any(all(abs(a - b) < 12 for a, b in zip(wanted, colour, strict=True)) for colour in seen), wanted
