"""A backup over the epochs of its topic: one behind the other, or of a topic that was made again. Oracle: gzip and json."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from cdc_assets.backup.backup_position import backup_position
from cdc_assets.backup.verification import verify_backup
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets_tests.backup.bronze_tables import Bronze, Rec, read_back, records
from cdc_assets_tests.backup.runs import contents, run


@pytest.mark.parametrize("seen", [True, False])
def test_goes_on_in_the_next_epoch_of_the_same_topic(store: ObjectStore, bronze: Bronze, root: Path, seen: bool) -> None:
    """What the backup lacks of the old epoch is copied first; objects of both are beside each other."""
    bronze.append("orders", records(0, 10), ends={0: 12})
    if seen:
        run(store, bronze, max_records=500)
    before = contents(root) if seen else {}
    bronze.append("orders", records(12, 3), ends={0: 20})
    bronze.append("orders", records(20, 7), ends={0: 30}, epoch=1)
    bronze.append("orders", records(30, 2), epoch=2)
    result = run(store, bronze)
    assert result.position.records_total == 22
    assert backup_position(store, source="shop", table="orders").positions == {0: 32}
    assert sorted(read_back(root, "shop", "orders"), key=lambda r: r.offset) == bronze.rows["orders"]
    assert {k: v for k, v in contents(root).items() if k in before and not k.endswith("_newest")} == {
        k: v for k, v in before.items() if not k.endswith("_newest")
    }
    report = verify_backup(store, source="shop", table="orders", bronze_path=bronze.path, deep=True)
    assert (report.differences, report.records, report.behind) == ((), 22, 0)
    bronze.append("orders", records(32, 1), epoch=2)
    assert verify_backup(store, source="shop", table="orders", bronze_path=bronze.path).behind == 1
    assert run(store, bronze).records == 1


@pytest.mark.parametrize("seen", ["all", "some", "none"])
@pytest.mark.parametrize("topic", ["made again", "the same, truncated"])
def test_follows_into_the_epoch_of_a_topic_made_again(
    store: ObjectStore, bronze: Bronze, root: Path, seen: str, topic: str
) -> None:
    """Its offsets begin again: what the backup lacks of the old epoch is copied first, and nothing is overwritten."""
    bronze.append("orders", records(0, 700), ends={0: 702})
    if seen != "none":
        run(store, bronze, max_records=500)
    if seen != "all":
        bronze.append("orders", records(702, 600))
    before = {key: data for key, data in contents(root).items() if not key.endswith("_newest")}
    bronze.topic_id = "topic-id-2" if topic == "made again" else bronze.topic_id
    again = [Rec(0, offset, value=b"again") for offset in range(900)]
    bronze.append("orders", again[:10], epoch=1, begins=True)
    assert run(store, bronze).records == {"all": 10, "some": 610, "none": 1310}[seen]
    bronze.append("orders", again[10:], ends={0: 1000}, epoch=1)
    bronze.append("orders", [Rec(0, 1000, value=b"restored")], epoch=2)
    assert verify_backup(store, source="shop", table="orders", bronze_path=bronze.path).behind == 891
    assert run(store, bronze).records == 891
    assert before.items() <= contents(root).items()
    assert Counter(read_back(root, "shop", "orders")) == Counter(bronze.rows["orders"])
    report = verify_backup(store, source="shop", table="orders", bronze_path=bronze.path, deep=True)
    assert (report.differences, report.unfinished, report.behind) == ((), (), 0)
    assert report.records == len(bronze.rows["orders"])
    assert run(store, bronze).manifests == 0
