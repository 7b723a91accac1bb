"""Names that a table's columns have because the product's own statements and frames give them too."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence

from cdc_assets.clients.databases.source_cut import SourceRows
from cdc_assets.registry.field_types import TableId
from cdc_assets_tests.support.given_names import whole_names
from spark.proof.row_text import WHOLE, RowText
from spark.silver.column_ledger import is_own_name
from spark.values.sql_dialects import BUCKETS

OF_OLD = (
    *(
        "b",
        "gone",
        "cdc_gone",
        "cdc_micros",
        "cdc_back",
        "cdc_count",
        "cdc_file",
        "cdc_event_micros",
        "back",
        "hops",
        "kept",
        "o",
    ),
    *(
        "says",
        "rank_max",
        "change",
        " 0",
        "w_0",
        "window_start",
        "text of b",
        "found",
        "c0",
        "c1",
        "k0",
        "l0",
        "v0",
        "t0",
        "_metadata",
    ),
)
"""Given by earlier releases, where a column of the name changed or ended what was done; or put together by numbers."""


def taken_names() -> list[str]:
    """All that a column may be called today, once whatever its case."""
    found = {name.lower(): name for name in (*whole_names(), *OF_OLD) if not is_own_name(name)}
    return [name for key, name in sorted(found.items()) if key != "id"]


def values_of(number: int, names: Sequence[str]) -> list[int]:
    """Of a row: few different ones, so that rows fall together by any column but their key."""
    return [(place * 7 + number * 3) % 5 for place, _ in enumerate(names)]


def check_sums(cut: SourceRows, table: TableId, text: RowText, rows: Mapping[int, list[int]], names: Sequence[str]) -> None:
    """A table with these rows by its key `id`: its sums, its count, its hashes and the texts of one key are those of Python."""
    expected: dict[int, tuple[int, int]] = {}
    for key, row in rows.items():
        count, total = expected.get(abs(key) % BUCKETS, (0, 0))
        expected[abs(key) % BUCKETS] = count + 1, total + hash_of([key, *row])
    assert cut.digest(table, text, WHOLE) == expected
    assert cut.count(table, text, WHOLE) == len(rows)
    assert cut.key_hashes(table, text, list(expected), WHOLE) == Counter((f"{k};", hash_of([k, *r])) for k, r in rows.items())
    shown = cut.texts(table, text, ["22;"])["22;"]
    assert shown == {"id": "22", **{name: str(value) for name, value in zip(names, rows[22], strict=True)}}


def hash_of(row: list[int]) -> int:
    return int(hashlib.md5("".join(f"{value};" for value in row).encode()).hexdigest()[:15], 16)
