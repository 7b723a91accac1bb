"""What is remembered of changes without an event, from one look to the next, until their table was compared behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.clients.connector_states import ConnectorStatus
from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.clients.databases.binlog_activity import UnsentScan
from cdc_assets.clients.databases.binlog_events import GAPS
from cdc_assets.clients.databases.binlog_unsent import SAME_PLACE, UnsentChange
from cdc_assets.clients.databases.catalogue import CatalogueTable
from cdc_assets.defs.capture_assets import LogReading, newest_baseline, of_flow, severity_of, with_unsent
from cdc_assets.proof.capture_flow import Flow
from cdc_assets.proof.comparison_result import DIFFERENT, EQUAL, TableResult
from cdc_assets.proof.flow_witnesses import BinlogWitness
from cdc_assets.proof.unsent_changes import forget_compared, forget_equal_tables, read_unsent_changes, remember
from cdc_assets.registry.errors import CdcAssetsError, DatabaseError, RefusalError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_state import SourceState

T, U = TableId("x", "t"), TableId("x", "u")
SOURCE = """
source: shop
database: {kind: mariadb, host: db, user: cdc, password: {secret: shop}}
tables: [{name: x.t}, {name: x.u}]
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def source(tmp_path: Path) -> Any:
    (tmp_path / "shop.yaml").write_text(SOURCE)
    return load_source(tmp_path / "shop.yaml")


def at(position: int, number: int = 1) -> BinlogPosition:
    return BinlogPosition.of(f"binlog.{number:06d}", position)


def change(position: int, kind: str = "DELETE", table: TableId = T, number: int = 1) -> UnsentChange:
    return UnsentChange(table, at(position, number), kind, f"DELETE FROM {table}")


class Log:
    """A server's log with these changes, and a connector that stands where it is said to."""

    url = "http://core"

    def __init__(self, *changes: UnsentChange, end: int = 900, number: int = 1) -> None:
        self.changes, self.end = list(changes), at(end, number)
        self.gaps: list[UnsentChange] = []
        self.failed = False
        self.unread = ""

    def place_and_clock(self) -> tuple[BinlogPosition, int]:
        return self.end, 1795996035

    def unsent_changes(self, ids: list[TableId], since: BinlogPosition, until: BinlogPosition) -> UnsentScan:
        return UnsentScan([c for c in self.changes if since <= c.at < until and c.table in ids], until, self.unread)

    def tables_in_own_types(self, ids: list[TableId]) -> dict[TableId, CatalogueTable]:
        return {id_: CatalogueTable(id_, (), ("id",) if id_ == T else ()) for id_ in ids}

    def changes_with_gaps(self, ids: list[TableId], since: BinlogPosition) -> list[UnsentChange]:
        return [c for c in self.gaps if c.at >= since]

    def time_at(self, place: BinlogPosition) -> int:
        return 1795996308 + place.position

    def binlog(self) -> list[tuple[str, int]]:
        return [(self.end.file, self.end.position)]

    def status(self, name: str) -> ConnectorStatus:
        return ConnectorStatus(name, "RUNNING", ("FAILED" if self.failed else "RUNNING",), ())

    def offsets(self, name: str) -> list[dict[str, Any]]:
        return [{"offset": {"file": "binlog.000001", "pos": 500}}]


def look(log: Log, source: Any, before: Any = None) -> dict[str, str]:
    found = BinlogWitness(log).unsent(source, log, before)  # type: ignore[arg-type]
    return found.messages(source)


def test_a_change_is_told_with_place_time_statement_and_mend(source: Any) -> None:
    log = Log(change(700), change(100), end=900)
    assert look(log, source, {"file": "binlog.000001", "position": 400}) == {
        "x.t": "1 change of its rows that Debezium sends no event for: binlog.000001:700 (2026-11-30 00:03:28 UTC), DELETE: "
        "DELETE FROM x.t. Red until all its rows were compared behind that place: cdc reconcile --heal shop.x__t (rows that "
        "the source has no more: cdc repair bronze shop x__t --anew, then cdc reconcile shop.x__t)"
    }


def test_rows_at_one_place_are_told_of_a_table_without_a_key_alone(source: Any) -> None:
    log = Log(change(700, SAME_PLACE), change(700, SAME_PLACE, U), end=900)
    assert look(log, source, {"file": "binlog.000001", "position": 400}) == {
        "x.u": "1 transaction whose row events have one place (binlog_transaction_compression), so that rows may be missing, "
        "since it has no key: binlog.000001:700 (2026-11-30 00:03:28 UTC), second row event of a compressed transaction: DELETE "
        "FROM x.u. Red until all its rows were compared behind that place: cdc reconcile shop.x__u. Where rows are missing, have "
        "the source read again while nobody writes: cdc stop shop-capture; cdc offsets reset shop-capture; "
        "cdc resume shop-capture"
    }


def test_declared_keys_are_keys(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(SOURCE.replace("{name: x.u}", "{name: x.u, keys: [v]}"))
    log = Log(change(700, SAME_PLACE, U), end=900)
    assert look(log, load_source(tmp_path / "shop.yaml"), {"file": "binlog.000001", "position": 400}) == {}


def test_the_first_look_without_a_check_before_begins_at_the_end(source: Any) -> None:
    assert look(Log(change(700)), source) == {}
    assert read_unsent_changes("shop").read_to == at(900)


def test_each_look_goes_on_and_what_was_found_stays(source: Any) -> None:
    look(Log(end=100), source)
    assert set(look(Log(change(150), change(160), end=300), source)) == {"x.t"}
    found = look(Log(change(150), change(310, table=U), change(320, table=U), change(330, table=U), end=400), source)
    assert set(found) == {"x.t", "x.u"}
    assert "2 changes of its rows" in found["x.t"]
    assert "3 changes of its rows that Debezium sends no event for: binlog.000001:310" in found["x.u"]
    assert "; the last at binlog.000001:330 (2026-11-29 23:57:18 UTC), DELETE: DELETE FROM x.u. Red until" in found["x.u"]
    assert look(Log(end=500), source) == found


def test_only_an_equal_comparison_of_the_whole_table_behind_the_last_change_ends_it(source: Any) -> None:
    look(Log(end=100), source)
    look(Log(change(150), change(200), end=300), source)

    def compared(lsn: str, verdict: str = EQUAL, share: str = "1/1") -> set[str]:
        result = TableResult("shop/x__t", verdict, lsn=lsn, source_rows=1, silver_rows=1, share=share)
        forget_equal_tables(source, source.tables, {"x__t": result})
        return set(read_unsent_changes("shop").tables)

    assert compared("binlog.000001:200") == {"x.t"}
    assert compared("binlog.000001:900", DIFFERENT) == {"x.t"}
    assert compared("binlog.000001:900", share="1/8") == {"x.t"}
    assert compared("none") == {"x.t"}
    assert compared("0/16B3748") == {"x.t"}
    assert compared("binlog.000001:201") == set()
    assert read_unsent_changes("shop").read_to == at(300)


def test_a_log_that_began_anew_lies_behind_what_was_found(source: Any) -> None:
    look(Log(end=100, number=7), source)
    look(Log(change(150, number=7), end=300, number=7), source)
    assert set(look(Log(end=50), source)) == {"x.t"}
    forget_compared("shop", {"x.t": "binlog.000001:60"})
    assert look(Log(change(70), end=90), source)["x.t"].startswith("1 change of its rows")


def test_where_the_connector_has_failed_images_with_gaps_are_looked_for(source: Any) -> None:
    log = Log(change(800), end=900)
    log.gaps = [change(510, GAPS)]
    assert GAPS not in str(look(log, source, {"file": "binlog.000001", "position": 400}))
    log.failed = True
    found = look(log, source)
    assert "2 changes of its rows that Debezium sends no event for: binlog.000001:510" in found["x.t"]
    assert "the last at binlog.000001:800" in found["x.t"]
    assert "read the table again: cdc repair model shop x__t. Red until" in found["x.t"]
    assert found["x.t"].endswith("cdc reconcile shop.x__t")
    assert look(log, source) == found
    log.end = at(4, 3)
    assert look(log, source) == found


def test_times_are_asked_for_what_is_shown_alone(source: Any) -> None:
    asked: list[BinlogPosition] = []
    changes = [("x.t", change(position)) for position in range(1, 5000)]
    remember("shop", changes, lambda place: asked.append(place), read_to=at(9000))
    assert asked == [at(1), at(4999)]


def test_a_memory_that_cannot_be_read_is_said(source: Any, home: Path) -> None:
    look(Log(end=100), source)
    state = SourceState("shop", "unsent changes")
    state.write({"tables": {"orders": {}}})
    with pytest.raises(
        CdcAssetsError, match=r"shop.json has no changes that .*; remove it, and compare every row: cdc reconcile"
    ):
        read_unsent_changes("shop")
    state.file.write_text("{")
    with pytest.raises(CdcAssetsError, match=r"shop.json cannot be read: .* remove it and compare every row: cdc reconcile shop"):
        read_unsent_changes("shop")


def test_the_check_is_red_and_its_text_names_the_tables(source: Any) -> None:
    look(Log(end=100), source)
    look(Log(change(150), end=300), source)
    log = LogReading(read_unsent_changes("shop"))
    passed, told, metadata = with_unsent(of_flow(Flow({}, events={"x.t": True})), source, log)
    assert (passed, told.split(" of its")[0]) == (False, "x.t: 1 change")
    assert metadata["cdc/unsent"].value == {"x.t": 1}
    assert metadata["cdc/none_silent"]
    late = RefusalError("connector shop-capture is at binlog.000001:120, not yet at binlog.000001:300")
    passed, told, _ = with_unsent(of_flow(late), source, log)
    assert (passed, told.startswith("x.t: 1 change"), told.endswith(str(late))) == (False, True, True)


def test_the_next_check_starts_from_the_last_one_that_found_no_silent_table(source: Any) -> None:
    """Red by a change without an event alone, a check is such a one."""
    key, said = dg.AssetCheckKey(dg.AssetKey(["connector", "shop"]), "events_flow"), []

    @dg.asset_check(asset=key.asset_key, name=key.name)
    def events_flow() -> dg.AssetCheckResult:
        passed, _, metadata = said[-1]
        return dg.AssetCheckResult(passed=passed, metadata=metadata)

    look(Log(end=100), source)
    look(Log(change(150), end=300), source)
    log = LogReading(read_unsent_changes("shop"))
    with dg.DagsterInstance.ephemeral() as instance:

        def after(flow: Flow, reading: LogReading) -> Any:
            said.append(with_unsent(of_flow(flow), source, reading))
            dg.materialize([events_flow], selection=dg.AssetSelection.checks(key), instance=instance)
            return newest_baseline(instance, key)

        assert newest_baseline(instance, key) is None
        assert after(Flow({}, baseline={"position": 1}), LogReading()) == {"position": 1}
        assert after(Flow({"x.u": "no event"}, baseline={"position": 2}), LogReading()) == {"position": 1}
        assert after(Flow({}, baseline={"position": 3}), log) == {"position": 3}
        assert after(Flow({"x.u": "no event"}, baseline={"position": 4}), log) == {"position": 3}
        assert after(Flow({}, baseline={"position": 5}), LogReading()) == {"position": 5}


def test_a_log_that_cannot_be_read_fails_the_check(source: Any) -> None:
    broken = LogReading(error=DatabaseError("MariaDB at db:3306: refused"))
    flow = Flow({}, events={"x.t": True})
    passed, told, _ = with_unsent(of_flow(flow), source, broken)
    assert (passed, told) == (
        False,
        "the log could not be read for changes without an event: MariaDB at db:3306: refused",
    )
    assert severity_of(source, flow, broken).value == "ERROR"
    passed, told, _ = with_unsent(of_flow(flow), source, LogReading())
    assert passed
    assert "none is silent" in told
