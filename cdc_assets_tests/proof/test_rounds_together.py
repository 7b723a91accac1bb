"""Tables of a source without a cut are carried into the lake together: once for their sums, and once for each round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_assets.capture.log_position import LogPosition
from cdc_assets.clients.delta_log import SilverState
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof import comparison
from cdc_assets.proof.compared_table import TWO_STEP, WHOLE_TABLES, SourceSide, Way
from cdc_assets.proof.comparison_result import DIFFERENT, EQUAL, INCONCLUSIVE, TableResult
from cdc_assets.registry.errors import ServiceError
from cdc_assets.registry.source_declaration import Source
from spark.proof import bucket_sums
from spark.proof.bucket_sums import Suspect
from spark.proof.row_text import RowText
from spark.specs import Column, SilverSpec

SOURCE = Source.model_validate(
    {
        "source": "shop",
        "database": {"kind": "postgresql", "host": "h", "dbname": "d", "user": "u", "password": {"secret": "s"}},
        "tables": [{"name": "public.a"}, {"name": "public.b"}, {"name": "public.c"}],
    }
)
COLUMNS = (Column("id", "integer", False), Column("v", "text"))
Rows = dict[str, str]
THEIRS: dict[str, Rows] = {"a": {"1;": "x", "2;": "y"}, "b": {"1;": "x", "2;": "y"}, "c": {"1;": "x"}}
"""Rows of the source by table, and the value of each key."""


def digest(rows: Rows) -> dict[int, tuple[int, int]]:
    return {0: (len(rows), sum(map(hash, rows.items())))} if rows else {}


def hashes(rows: Rows) -> Counter[tuple[str, int]]:
    return Counter((key, hash(value)) for key, value in rows.items())


def shown(rows: Mapping[str, str], keys: Sequence[str]) -> dict[str, dict[str, str | None]]:
    return {key: {"id": key, "v": rows[key]} for key in keys if key in rows}


class SourceRows:
    """Rows of the source as they are."""

    def digest(self, table: Any, text: Any, part: Any) -> Any:
        return digest(THEIRS[table.table])

    def key_hashes(self, table: Any, text: Any, buckets: Any, part: Any) -> Any:
        return hashes(THEIRS[table.table])

    def texts(self, table: Any, text: Any, keys: Sequence[str]) -> Any:
        return shown(THEIRS[table.table], keys)


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, TableResult]]:
    """Three tables with what the lake has of them; `carry` is asked for each position."""

    def suspects(_: Any, rows: Rows, keys: Sequence[str]) -> dict[str, Suspect]:
        silver = shown(rows, keys)
        return {key: Suspect(None, None, silver.get(key), False, int(key in rows)) for key in keys}

    def run(lake: Mapping[str, Rows], carry: Callable[[], LogPosition]) -> dict[str, TableResult]:
        def task(compared: Any, *_: Any) -> Any:
            return Task(lake[compared.table.id.table])

        monkeypatch.setattr(comparison, "comparison_task", task)
        spark = SimpleNamespace(compare=lambda function, asked: function(None, asked))
        platform: Any = SimpleNamespace(spark=lambda: spark, lake="lake")
        side = SourceSide(SourceRows(), carry, {table.id: Any for table in SOURCE.tables})  # type: ignore[misc]
        way = Way(SOURCE.tables, TWO_STEP, lambda: nullcontext(side))
        return comparison.compare_by(Chain(platform, SOURCE), way, WHOLE_TABLES)

    class Task(dict[str, str]):
        """A task that is the lake's rows of its table."""

        base = SimpleNamespace(has_news=lambda _: False)
        spec = SimpleNamespace(table="t")
        part = (0, 1)

    text = RowText(SilverSpec("s", "t", "-", "-", COLUMNS, ("id",)))
    for name, value in {
        "silver_state": lambda _: None,
        "bronze_committed": lambda _: None,
        "lake_read": lambda *_: (None, None),
        "existing": lambda *_: (SilverState(None, 0, 0), None),
        "row_text": lambda *_: text,
        "rows_in_doubt": lambda _: 0,
        "with_causes": lambda _, __, results: results,
        "_PAUSE_SECONDS": 0.0,
    }.items():
        monkeypatch.setattr(comparison, name, value)
    monkeypatch.setattr(bucket_sums, "digest_small_tables", lambda _, tasks: [digest(rows) for rows in tasks])
    monkeypatch.setattr(bucket_sums, "key_hashes", lambda _, rows, __: hashes(rows))
    monkeypatch.setattr(bucket_sums, "suspects", suspects)
    return run


class Carry:
    """Each place of the log once; `broken_at` is the number of the place that does not come."""

    def __init__(self, broken_at: int = 0) -> None:
        self.carried, self.broken_at = 0, broken_at

    def __call__(self) -> LogPosition:
        self.carried += 1
        if self.carried == self.broken_at:
            raise ServiceError("the mirror did not follow")
        return LogPosition("m", f"0/{self.carried}", {})


def test_all_tables_are_carried_together(compare: Any) -> None:
    """Each table was carried by itself: three tables took seven places of the log, and as many waits for the mirror."""
    carry = Carry()
    found = compare({**THEIRS, "a": {"1;": "x", "2;": "other"}, "b": {"1;": "x"}}, carry)
    assert {name: result.verdict for name, result in found.items()} == {"a": DIFFERENT, "b": DIFFERENT, "c": EQUAL}
    assert [(d.key, d.kind) for name in "ab" for d in found[name].differences] == [("2;", "differs"), ("2;", "missing")]
    # One for the sums, and two rounds, since a difference must be found twice.
    assert carry.carried == 3
    assert {result.lsn for result in found.values()} == {"0/3", "0/1"}


def test_a_place_that_does_not_come_leaves_what_is_equal(compare: Any) -> None:
    found = compare({**THEIRS, "a": {"1;": "x", "2;": "other"}}, Carry(broken_at=2))
    assert {name: result.verdict for name, result in found.items()} == {"a": INCONCLUSIVE, "b": EQUAL, "c": EQUAL}
    assert found["a"].reason == "the mirror did not follow"
    assert {r.reason for r in compare(THEIRS, Carry(broken_at=1)).values()} == {"the mirror did not follow"}
