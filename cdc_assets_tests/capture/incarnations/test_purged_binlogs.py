"""What a binlog's files say about a connector's offset."""

from __future__ import annotations

from typing import Any

import pytest

from cdc_assets.capture.incarnations.binlog_incarnation import binlog_verdict

FILES = [("binlog.000009", 900), ("binlog.000010", 500)]


def offset(file: str, pos: int, **more: Any) -> list[dict[str, Any]]:
    return [{"partition": {"server": "shop"}, "offset": {"file": file, "pos": pos, **more}}]


@pytest.mark.parametrize(
    ("offsets", "files", "expected"),
    [
        ([], FILES, ""),
        (offset("binlog.000001", 4, snapshot="INITIAL"), FILES, ""),
        (offset("binlog.000009", 900), FILES, ""),
        (offset("binlog.000010", 4), FILES, ""),
        (offset("binlog.000008", 4), FILES, "begins with binlog.000009, and binlog.000008:4 is the last that was read"),
        # Another log: it ends before what was read.
        (offset("binlog.000010", 501), FILES, "its binlog ends at binlog.000010:500"),
        (offset("binlog.000011", 4), FILES, "its binlog ends at binlog.000010:500"),
        (offset("binlog.1000000", 4), [("binlog.999999", 4), ("binlog.1000001", 4)], "was purged"),
        (offset("binlog.000009", 4), [], "it writes no binlog"),
    ],
)
def test_what_may_go_on(offsets: list[dict[str, Any]], files: list[tuple[str, int]], expected: str) -> None:
    found = binlog_verdict(files, offsets)
    assert found.kind == ("other" if expected else "same"), found.reason
    assert expected in found.reason
