"""Topics of both clusters and all connectors are gone; a restore that is killed goes on. The source's table is the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.bronze.append import look
from cdc_assets.errors import BackupError
from cdc_assets.restore import lost_topics
from cdc_assets.restore.lost_topics import restore_topics
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.restore_ground import Ground, open_ground

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

NAME = "lostboth"


class KilledError(Exception):
    """The process is gone here."""


@pytest.fixture(scope="module")
def ground(
    make_cdc: Callable[[str], Cdc], remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    with open_ground(make_cdc, remote, tmp_path_factory, NAME) as ground:
        yield ground


def test_killed_before_its_commit_a_restore_is_done_anew(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads what is half restored: to bronze it is another topic until the commit."""
    before = ground.records()
    ground.delete_copy()

    def die(*_: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(lost_topics, "record_restored", die)
        with pytest.raises(KilledError):
            restore_topics(ground.platform, ground.source, print)
    found = look(ground.platform, ground.source, ground.source.tables)
    assert "was recreated" in found.gaps[ground.copy]
    ground.change(f"INSERT INTO public.{NAME} VALUES (100, 'meanwhile')")
    (done,) = ground.cdc.json("restore", NAME, "--topics")["topics"]
    assert done["records"] == len(before)
    ground.all_is_well()
    assert ground.records()[: len(before)] == before


def test_a_damaged_object_is_named_before_anything_is_changed(ground: Ground) -> None:
    item = next(each for each in ground.store.list(f"{NAME}/{NAME}/") if each.key.endswith(".json.gz"))
    data = ground.store.get(item.key)
    ground.store.put(item.key, data[:-1] + b"!")
    ground.delete_copy()
    until(lambda: ground.copy not in ground.platform.raw_lake_kafka().states([ground.copy]))
    with pytest.raises(BackupError, match=item.key.rsplit("/", 1)[-1].replace("+", r"\+")):
        restore_topics(ground.platform, ground.source, print)
    status = ground.cdc.lake.connect.status(ground.mirror)
    assert status is not None
    assert status.state == "RUNNING"
    ground.store.put(item.key, data)
    assert len(ground.cdc.json("restore", NAME, "--topics")["topics"]) == 1
    ground.all_is_well()


def test_topics_of_both_clusters_and_connectors_come_back(ground: Ground) -> None:
    """What the slot has given away to the lost topics cannot be asked for again, so capture begins a new epoch."""
    ground.materialize()
    before = ground.records()
    ground.lose_connectors()
    ground.await_idle_slot()
    core = ground.platform.core_kafka("core")
    core.delete_topic(ground.topic)
    until(lambda: not core.existing([ground.topic]))
    ground.delete_copy()
    ground.change(f"DELETE FROM public.{NAME} WHERE id = 5", f"INSERT INTO public.{NAME} VALUES (200, 'nobody captures')")
    planned = ground.cdc.json("restore", NAME, "--topics", "--connectors", "--dry-run")
    assert [(each["cluster"], each["records"]) for each in planned["topics"]] == [("core", len(before)), ("lake", len(before))]
    done = ground.cdc.json("restore", NAME, "--topics", "--connectors")
    assert [each["records"] for each in done["topics"]] == [len(before), len(before)]
    assert [each["way"] for each in done["connectors"]] == ["goes on", "new epoch"]
    assert "what they alone held is gone" in done["connectors"][1]["reason"]
    ground.all_is_well(epoch=1)
    assert ground.records()[: len(before)] == before
