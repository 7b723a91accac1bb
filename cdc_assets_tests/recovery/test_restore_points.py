"""`--to`: of each partition what stands before the first record that is later. Oracle: the rows themselves, cut by hand."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.recovery import row_groups
from cdc_assets.recovery.restore_point import AtOffsets, AtPosition, AtTime, RestorePoint, WholeBackup, parse_restore_point
from cdc_assets.recovery.restored_bronze import restore_bronze
from cdc_assets.registry.errors import RefusalError
from cdc_assets_tests.recovery.conftest import Ask
from cdc_assets_tests.recovery.original import NOON, Original, held, quietly, row, rows, states

TIME = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=NOON)


def is_later(point: RestorePoint, each: dict[str, Any]) -> bool:
    match point:
        case AtTime(moment):
            return bool(each["timestamp"] > moment)
        case AtPosition(position):
            return bool((each["position"] or "") > position)
        case AtOffsets(epoch, offsets):
            return each["epoch"] > epoch or (each["epoch"] == epoch and each["offset"] >= offsets.get(each["partition"], 0))
    return False


def prefix(found: list[dict[str, Any]], point: RestorePoint) -> list[dict[str, Any]]:
    stopped: dict[int, int] = {}
    kept = []
    for each in found:
        if any(epoch < each["epoch"] for epoch in stopped.values()) or each["partition"] in stopped:
            continue
        if is_later(point, each):
            stopped[each["partition"]] = each["epoch"]
        else:
            kept.append(each)
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("group", [10, 400_000])
@pytest.mark.parametrize(
    "point",
    [
        WholeBackup(),
        AtTime(TIME + timedelta(milliseconds=650)),
        AtTime(TIME + timedelta(milliseconds=810)),
        AtTime(TIME - timedelta(days=1)),
        AtPosition(f"0000.{300:016x}.1.{300:016x}.{300:016x}"),
        AtPosition("0000.~"),
        AtPosition("0001.~"),
        AtOffsets(0, {0: 123, 1: 7}),
        AtOffsets(1, {0: 810, 1: 702}),
    ],
    ids=lambda value: str(getattr(value, "text", value)),
)
def test_each_partition_ends_where_it_is_later(
    store: ObjectStore, original: Original, ask: Ask, monkeypatch: pytest.MonkeyPatch, point: RestorePoint, group: int
) -> None:
    monkeypatch.setattr(row_groups, "_RECORDS", group)
    original.append("orders", [*rows(0, 800), *rows(0, 700, partition=1)], ends={0: 802, 1: 702})
    late = [row(0, 802 + n, position=f"0001.{n:016x}.1.{n:016x}.{n:016x}") for n in range(20)]
    original.append("orders", late, epoch=1, ranges={0: (802, 822), 1: (702, 702)})
    original.back_up(store, "orders")
    request = ask(store, points={"orders": point})
    restore_bronze(request, quietly)
    expected = prefix(held(original.path, "orders"), point)
    assert (held(request.path, "orders") if states(request.path) else []) == expected
    if expected:
        (state,) = states(request.path).values()
        assert state.all_records == len(expected)
        assert state.epoch == max(each["epoch"] for each in expected)
        newest = [each for each in expected if each["epoch"] == state.epoch]
        for partition in {each["partition"] for each in newest}:
            last = max(each["offset"] for each in newest if each["partition"] == partition)
            assert state.positions[partition] >= last + 1


def test_a_point_is_a_time_or_a_position() -> None:
    assert parse_restore_point(None) == WholeBackup()
    assert parse_restore_point("2026-11-25T18:00:00Z") == parse_restore_point("2026-11-25T19:00:00+01:00")
    assert parse_restore_point("2026-11-25") == AtTime(datetime(2026, 11, 25, tzinfo=timezone.utc))
    assert parse_restore_point("0000.00000000016b3748.1.0") == AtPosition("0000.00000000016b3748.1.0")
    for text in ("yesterday", "", "0/16B3748", "12"):
        with pytest.raises(RefusalError, match="neither a time"):
            parse_restore_point(text)
