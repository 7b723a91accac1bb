"""What a backup holds, and how it goes on. Oracle: its objects read with gzip and json, against the rows put into bronze."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from cdc_assets.backup.backup_copy import BackupResult
from cdc_assets.backup.backup_position import BackupPosition, backup_position
from cdc_assets.backup.verification import verify_backup
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.registry.errors import BackupError
from cdc_assets_tests.backup.bronze_tables import NOON, Bronze, Rec, read_back, records, topic_of
from cdc_assets_tests.backup.faulty_store import FaultyStore, KilledError
from cdc_assets_tests.backup.runs import contents, run

HOUR = 3_600_000


def test_nothing_in_bronze_is_no_backup(store: ObjectStore, bronze: Bronze, root: Path) -> None:
    assert run(store, bronze).manifests == 0
    bronze.append("customers", records(0, 3))
    assert run(store, bronze) == replace(run(store, bronze), seconds=pytest.approx(0, abs=60))
    assert not root.exists() or contents(root) == {}
    assert backup_position(store, source="shop", table="orders") == BackupPosition()


def test_layout_and_manifest(store: ObjectStore, bronze: Bronze, root: Path) -> None:
    bronze.append(
        "orders", [*records(10, 3), *records(20, 2, timestamp=NOON + HOUR), *records(5, 4, partition=1)], ends={0: 30, 1: 9}
    )
    result = run(store, bronze)
    manifest = json.loads((root / "shop/orders/_manifests/0000-00000000000000000000.json").read_bytes())
    folders = {
        n: f"shop/orders/{datetime.fromtimestamp((NOON + n * HOUR) / 1000, timezone.utc):dt=%Y-%m-%d/hr=%H}" for n in (0, 1)
    }
    assert [item["key"] for item in manifest["objects"]] == [
        f"{folders[0]}/core.shop.public.orders+0+0+00000000000000000010.json.gz",
        f"{folders[0]}/core.shop.public.orders+0+1+00000000000000000005.json.gz",
        f"{folders[1]}/core.shop.public.orders+0+0+00000000000000000020.json.gz",
    ]
    assert [(o["records"], o["min_offset"], o["max_offset"]) for o in manifest["objects"]] == [
        (3, 10, 12),
        (4, 5, 8),
        (2, 20, 21),
    ]
    assert manifest["ranges"] == manifest["ranges"] | {"0": [0, 30], "1": [0, 9]}
    assert (manifest["topic"], manifest["topic_id"], manifest["epoch"]) == (topic_of("orders"), "topic-id-1", 0)
    assert (manifest["records"], manifest["by_op"], manifest["bronze_version"]) == (9, {"c": 9}, 0)
    assert (result.records, result.objects, result.manifests, result.position.records_total) == (9, 3, 1, 9)
    assert result.bytes == sum(o["size"] for o in manifest["objects"])


def test_every_byte_comes_back(store: ObjectStore, bronze: Bronze, root: Path) -> None:
    odd = [
        Rec(0, 0, key=None, value=None, op=None),
        Rec(0, 1, key=b"\xff\x00", value=b"\x80not utf-8"),
        Rec(0, 2, key=b"", value=b"", op=None),
        Rec(0, 3, value='{"name":"Zürich 🚲 \\u0000 line\nsep  "}'.encode()),
        Rec(0, 4, headers=(("a", b"1"), ("a", b"\xfe"), ("ü", None))),
        Rec(0, 5, headers=(("a", b"1"),)),
        Rec(0, 6, timestamp=-1),
        Rec(0, 7, timestamp=NOON + 1),
        Rec(0, 8, value=b'"null"'),
    ]
    bronze.append("orders", odd)
    run(store, bronze)
    assert sorted(read_back(root, "shop", "orders"), key=lambda r: r.offset) == odd
    (manifest,) = (root / "shop/orders/_manifests").iterdir()
    assert json.loads(manifest.read_bytes())["by_op"] == dict(Counter(r.kind for r in odd))


def test_a_timestamp_that_no_calendar_reaches(store: ObjectStore, bronze: Bronze, root: Path) -> None:
    bronze.append("orders", [Rec(0, 0, timestamp=NOON * 1000)])  # microseconds where milliseconds were meant
    run(store, bronze)
    assert [p.parent.parent.name[:5] for p in root.rglob("*.gz")] == ["dt=58"]
    assert verify_backup(store, source="shop", table="orders", bronze_path=bronze.path).ok


def test_again_writes_nothing(store: ObjectStore, bronze: Bronze, root: Path) -> None:
    bronze.append("orders", records(0, 50))
    run(store, bronze)
    before = contents(root)
    watched = FaultyStore(store)
    again = run(watched, bronze)
    assert (again.records, again.objects, again.manifests, again.position.records_total) == (0, 0, 0, 50)
    assert contents(root) == before
    assert {operation for operation, _ in watched.done} == {"get", "list"}


def test_goes_on_where_it_was(store: ObjectStore, bronze: Bronze, root: Path) -> None:
    bronze.append("orders", records(0, 10))
    run(store, bronze)
    first = contents(root)
    bronze.append("orders", records(12, 5), ends={0: 20})
    bronze.append("orders", [], ends={0: 25})  # transaction markers only
    assert run(store, bronze).records == 5
    assert run(store, bronze).manifests == 0
    bronze.append("orders", records(25, 1), ends={0: 26, 1: 0})
    bronze.append("orders", records(0, 3, partition=1))
    assert run(store, bronze).records == 4
    assert Counter(read_back(root, "shop", "orders")) == Counter(bronze.rows["orders"])
    assert {name: contents(root)[name] for name in first if not name.endswith("_newest")} == {
        name: data for name, data in first.items() if not name.endswith("_newest")
    }
    assert backup_position(store, source="shop", table="orders").positions == {0: 26, 1: 3}
    assert verify_backup(store, source="shop", table="orders", bronze_path=bronze.path, deep=True).differences == ()


@pytest.mark.parametrize("bounds", [{"max_records": 700}, {"max_bytes": 20_000}])
def test_batches_are_bounded(store: ObjectStore, bronze: Bronze, root: Path, bounds: dict[str, int]) -> None:
    # A log that begins at offset ten million: no batch for what is not there.
    bronze.append("orders", [*records(10_000_000, 3000), *records(0, 1200, partition=1)])
    result = run(store, bronze, **bounds)
    manifests = [json.loads(p.read_bytes()) for p in sorted((root / "shop/orders/_manifests").iterdir())]
    assert result.manifests == len(manifests) > 4
    assert max(m["records"] for m in manifests) <= 1000
    assert Counter(read_back(root, "shop", "orders")) == Counter(bronze.rows["orders"])
    assert verify_backup(store, source="shop", table="orders", bronze_path=bronze.path).ok


def test_a_table_whose_name_begins_another(store: ObjectStore, bronze: Bronze, root: Path) -> None:
    bronze.append("orders", records(0, 5))
    bronze.append("orders2", records(0, 7))
    run(store, bronze, "orders2")
    before = contents(root)
    run(store, bronze, "orders")
    assert {name: data for name, data in contents(root).items() if not name.startswith("shop/orders/")} == before
    assert [r.offset for r in read_back(root, "shop", "orders")] == list(range(5))
    for table, count in (("orders", 5), ("orders2", 7)):
        report = verify_backup(store, source="shop", table=table, bronze_path=bronze.path)
        assert (report.records, report.differences) == (count, ())


def test_the_newest_manifest_is_found_without_listing_all(store: ObjectStore, bronze: Bronze) -> None:
    for n in range(30):
        bronze.append("orders", records(n, 1))
        run(store, bronze)
    listed: list[int] = []

    class Counting(FaultyStore):
        def list(self, prefix: str, *, after: str = ""):  # type: ignore[no-untyped-def]
            found = list(super().list(prefix, after=after))
            listed.append(len(found))
            return iter(found)

    at = backup_position(Counting(store), source="shop", table="orders")
    assert (at.records_total, listed) == (30, [1])


@pytest.mark.parametrize(
    "cache", [None, b"", b"../../etc/passwd", b"\xff", b"0000-00000000000000000003.json", b"9999-00000000000000000003.json"]
)
def test_a_lost_or_wrong_cache_is_not_believed(store: ObjectStore, bronze: Bronze, cache: bytes | None) -> None:
    for n in range(5):
        bronze.append("orders", records(n, 1))
        run(store, bronze)
    store.delete("shop/orders/_newest")
    if cache is not None:
        store.put("shop/orders/_newest", cache)
    assert backup_position(store, source="shop", table="orders").positions == {0: 5}
    assert run(store, bronze).manifests == 0


def test_files_that_are_older_are_not_read_again(store: ObjectStore, bronze: Bronze, root: Path) -> None:
    bronze.append("orders", records(0, 10))
    run(store, bronze)
    for old in Path(bronze.path).glob("*.parquet"):
        old.unlink()
    bronze.append("orders", records(10, 10, timestamp=NOON + HOUR))
    assert run(store, bronze).records == 10
    assert [r.offset for r in read_back(root, "shop", "orders")] == list(range(20))


def test_a_batch_that_left_something_out_does_not_skip_files(store: ObjectStore, bronze: Bronze, root: Path) -> None:
    # The second commit's records are older than the first one's, and the backup stops between the two.
    bronze.append("orders", records(0, 600))
    bronze.append("orders", records(600, 600, timestamp=NOON - HOUR))
    with pytest.raises(KilledError):
        run(FaultyStore(store, dies_at=5), bronze, max_records=500)
    assert backup_position(store, source="shop", table="orders").positions == {0: 500}
    bronze.append("orders", records(1200, 1, timestamp=NOON + HOUR))
    run(store, bronze)
    assert Counter(read_back(root, "shop", "orders")) == Counter(bronze.rows["orders"])


def test_same_bytes_each_time(tmp_path: Path, store: ObjectStore, bronze: Bronze, root: Path) -> None:
    bronze.append("orders", records(0, 100))
    run(store, bronze)
    first = contents(root)
    for path in root.rglob("*"):
        if path.is_file():
            path.unlink()
    run(store, bronze)
    assert contents(root) == first


def test_a_batch_half_written_is_finished_as_planned(store: ObjectStore, bronze: Bronze, root: Path) -> None:
    bronze.append("orders", [*records(0, 10), *records(10, 10, timestamp=NOON + HOUR)])
    # plan, first object, then dies before the second object
    with pytest.raises(KilledError):
        run(FaultyStore(store, dies_at=4), bronze)
    half = {name: data for name, data in contents(root).items() if name.endswith(".gz")}
    assert len(half) == 1
    report = verify_backup(store, source="shop", table="orders", bronze_path=bronze.path)
    assert (report.ok, report.manifests, list(report.unfinished), report.behind) == (True, 0, list(half), 20)
    bronze.append("orders", records(20, 5, timestamp=NOON + HOUR))
    result = run(store, bronze)
    assert (result.manifests, result.records) == (2, 25)
    assert {name: contents(root)[name] for name in half} == half
    assert Counter(read_back(root, "shop", "orders")) == Counter(bronze.rows["orders"])
    assert verify_backup(store, source="shop", table="orders", bronze_path=bronze.path).unfinished == ()


def test_two_backups_at_once_make_one(store: ObjectStore, bronze: Bronze, root: Path) -> None:
    bronze.append("orders", [*records(0, 1000), *records(0, 1000, partition=1)])
    results: list[BackupResult] = []

    def overtake(operation: str, key: str) -> None:
        # At its first object, bronze has grown and another backup runs from start to end.
        if key.endswith(".gz") and not results:
            results.append(BackupResult(0, 0, 0, 0, 0, 0))
            bronze.append("orders", records(1000, 700, timestamp=NOON + HOUR))
            results.append(run(store, bronze, max_records=600))

    results.append(run(FaultyStore(store, at_each=overtake), bronze, max_records=600))
    assert Counter(read_back(root, "shop", "orders")) == Counter(bronze.rows["orders"])
    assert sum(r.records for r in results) == 2700
    assert verify_backup(store, source="shop", table="orders", bronze_path=bronze.path, deep=True).differences == ()
    assert run(store, bronze).manifests == 0


def test_a_race_of_several_backups_while_bronze_grows(any_store: ObjectStore, bronze: Bronze) -> None:
    bronze.append("orders", records(0, 2000))
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(run, any_store, bronze, max_records=limit) for limit in (500, 700, 1000)]
        bronze.append("orders", records(2000, 1500, timestamp=NOON + HOUR))
        runs.append(pool.submit(run, any_store, bronze, max_records=900))
        written = sum(each.result().records for each in runs)
    report = verify_backup(any_store, source="shop", table="orders", bronze_path=bronze.path, deep=True)
    assert (written, report.records, report.differences, report.unfinished) == (3500, 3500, (), ())


def test_a_damaged_object_of_no_manifest_is_replaced(store: ObjectStore, bronze: Bronze, root: Path) -> None:
    bronze.append("orders", records(0, 10))
    with pytest.raises(KilledError):
        run(FaultyStore(store, dies_at=3, after_effect=True), bronze)
    (path,) = root.rglob("*.gz")
    path.write_bytes(path.read_bytes()[:-5])
    run(store, bronze)
    assert read_back(root, "shop", "orders") == bronze.rows["orders"]


def test_bronze_rebuilt_or_of_another_topic_is_refused(store: ObjectStore, bronze: Bronze, tmp_path: Path) -> None:
    bronze.append("orders", records(0, 10))
    run(store, bronze)
    behind = Bronze(str(tmp_path / "behind"))
    behind.append("orders", records(0, 5))
    with pytest.raises(BackupError, match=r"ahead of bronze at offsets \{0: 10\}.*another prefix"):
        run(store, behind)
    other = Bronze(str(tmp_path / "other"), topic_id="topic-id-2")
    other.append("orders", records(0, 50))
    with pytest.raises(BackupError, match=r"topic-id-1.*topic-id-2"):
        run(store, other)


@pytest.mark.parametrize(("offset", "message"), [(4, "offset 4 .* twice"), (100, None)])
def test_rows_that_no_commit_speaks_of(store: ObjectStore, bronze: Bronze, offset: int, message: str | None) -> None:
    bronze.append("orders", records(0, 10))
    bronze.write("orders", [Rec(0, offset)])
    if message is None:
        assert run(store, bronze).records == 10
        return
    with pytest.raises(BackupError, match=message):
        run(store, bronze)
    assert backup_position(store, source="shop", table="orders").records == 0


def test_rows_missing_from_bronze_stop_the_backup(store: ObjectStore, bronze: Bronze) -> None:
    from deltalake import DeltaTable

    bronze.append("orders", records(0, 10))
    bronze.append("orders", records(10, 10))
    DeltaTable(bronze.path).delete("offset = 7")
    with pytest.raises(BackupError, match=r"19 rows .* commits say 20"):
        run(store, bronze)


def test_on_every_store(any_store: ObjectStore, bronze: Bronze) -> None:
    bronze.append("orders", [*records(0, 600), *records(600, 600, timestamp=NOON + HOUR)])
    for dies_at in (2, 4, 6):
        with pytest.raises(KilledError):
            run(FaultyStore(any_store, dies_at=dies_at, after_effect=True), bronze, max_records=500)
    run(any_store, bronze, max_records=500)
    report = verify_backup(any_store, source="shop", table="orders", bronze_path=bronze.path, deep=True)
    assert (report.records, report.differences, report.unfinished) == (1200, (), ())
    assert run(any_store, bronze).manifests == 0
