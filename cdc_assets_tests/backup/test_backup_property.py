"""Any history of batches, killed anywhere: afterwards every bronze record is in the backup exactly once.

The oracle reads Delta and the objects by other means than the backup does: pyarrow without filters, gzip and json.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_assets.backup.backup_copy import BatchForm, backup_table
from cdc_assets.backup.verification import verify_backup
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.clients.opened_store import open_store
from cdc_assets.registry.backup_store import BackupStore
from cdc_assets_tests.backup.bronze_tables import NOON, Bronze, Rec, read_back, topic_of
from cdc_assets_tests.backup.faulty_store import FaultyStore, KilledError

TABLES = ("orders", "orders2")
EVENT = st.tuples(
    st.integers(0, 2),  # partition
    st.integers(1, 400),  # offsets since the one before, wider than the windows that batches end at when summed up
    st.integers(-2, 2),  # hours: timestamps of a partition are not in order
    st.sampled_from([None, b"", b"text", "ü\x00\u2028".encode(), b"\xff\xfe", b'{"op":"u"}']),
    st.sampled_from(["c", "u", "d", "r", None]),
)
APPEND = st.tuples(st.just("append"), st.sampled_from(TABLES), st.lists(EVENT, max_size=12), st.integers(0, 30))
BACKUP = st.tuples(
    st.just("backup"), st.sampled_from(TABLES), st.integers(-1, 14), st.booleans(), st.sampled_from([1, 3, 8, 1000])
)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(st.one_of(APPEND, BACKUP, BACKUP), min_size=1, max_size=10))
def test_exactly_once_wherever_it_is_killed(steps: list[tuple]) -> None:  # type: ignore[type-arg]
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(BackupStore(kind="local", bucket=f"{folder}/bucket", prefix="p"))
        store.create_bucket()
        history = _History(store, Bronze(f"{folder}/bronze"), Path(folder, "bucket", "p"))
        for name, *arguments in steps:
            getattr(history, name)(*arguments)
            history.assert_nothing_twice()
        for table in TABLES:
            history.backup(table, -1, False, 1000)
        history.assert_exactly_once()


class _History:
    def __init__(self, store: ObjectStore, bronze: Bronze, root: Path) -> None:
        self._store, self._bronze, self._root = store, bronze, root
        self._ends: dict[tuple[str, int], int] = {}
        self._sealed: dict[str, bytes] = {}

    def append(self, table: str, events: list[tuple], markers: int) -> None:  # type: ignore[type-arg]
        rows = []
        for partition, step, hours, value, op in events:
            offset = self._ends.get((table, partition), 0) + step - 1
            self._ends[table, partition] = offset + 1
            rows.append(Rec(partition, offset, NOON + hours * 3_600_000, value, value, op, (("h", value),) * (step % 3)))
        ends = {p: end + markers for (t, p), end in self._ends.items() if t == table}
        self._ends |= {(table, p): end for p, end in ends.items()}
        self._bronze.append(table, rows, ends=ends)

    def backup(self, table: str, dies_at: int, after_effect: bool, max_records: int) -> None:
        store = FaultyStore(self._store, dies_at=dies_at, after_effect=after_effect)
        try:
            backup_table(
                store, source="shop", table=table, bronze_path=self._bronze.path, form=BatchForm(max_records=max_records)
            )
        except KilledError:
            return

    def assert_nothing_twice(self) -> None:
        for table in TABLES:
            saved = Counter(read_back(self._root, "shop", table))
            assert not saved - Counter(self._bronze.rows.get(table, []))
            for manifest in (self._root / "shop" / table / "_manifests").glob("*.json"):
                for item in json.loads(manifest.read_bytes())["objects"]:
                    data = (self._root / item["key"]).read_bytes()
                    assert self._sealed.setdefault(item["key"], data) == data, "an object of a manifest was written again"

    def assert_exactly_once(self) -> None:
        for table in TABLES:
            assert Counter((r.partition, r.offset) for r in read_back(self._root, "shop", table)) == self._in_delta(table)
            assert Counter(read_back(self._root, "shop", table)) == Counter(self._bronze.rows.get(table, []))
            report = verify_backup(self._store, source="shop", table=table, bronze_path=self._bronze.path, deep=True)
            assert (report.differences, report.unfinished, report.behind) == ((), (), 0)

    def _in_delta(self, table: str) -> Counter[tuple[int, int]]:
        if not DeltaTable.is_deltatable(self._bronze.path):
            return Counter()
        rows = DeltaTable(self._bronze.path).to_pyarrow_table(columns=["topic", "partition", "offset"]).to_pylist()
        return Counter((r["partition"], r["offset"]) for r in rows if r["topic"] == topic_of(table))
