"""Topics, connectors and the lake come back from the backup while the source is written to; the source's tables are the oracle.

What a reader of the lake's topic saw before is what he sees after, and bronze has each of its records once.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.backup.platform_log import newest_state
from cdc_assets.capture.log_position import carry_to_lake
from cdc_assets.chain.bronze_append import look
from cdc_assets.clients.source_chain import Chain
from cdc_assets.recovery import lost_topics
from cdc_assets.recovery.lost_topics import restore_topics
from cdc_assets.recovery.restore_point import DAMAGED, RESTORED, THERE
from cdc_assets.registry import names
from cdc_assets.registry.errors import BackupError
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.restore_ground import Ground, open_ground
from cdc_assets_tests.support.servers.endpoints import Endpoint

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME, KEPT = "regained", "regained_kept"
TOPIC = f"{NAME}.public.{NAME}"
COPY = f"core.{TOPIC}"
CAPTURE, MIRROR = f"{NAME}-capture", f"{NAME}-mirror"
KEPT_SLOT = f"cdc_{NAME}_backup"


class KilledError(Exception):
    """The process is gone here."""


@pytest.fixture(scope="module")
def ground(
    make_cdc: Callable[[str], Cdc],
    remote: str,
    session: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    s3_endpoint: Endpoint,
) -> Iterator[Ground]:
    with open_ground(make_cdc, remote, tmp_path_factory, NAME, s3_endpoint) as ground:
        yield ground


def test_all_but_the_source_and_the_bucket_is_destroyed_under_writes(ground: Ground) -> None:
    """Both brokers' data, Connect's, the lake and our memory are gone; what only Kafka had comes again from the source's log.

    One object of the backup has a flipped bit at first: it is named, and the other table comes back with its history.
    """
    with ground.writes():
        # One run of the backup notes the place of the kept log, and the next one finds that the backup has come there.
        ground.materialize()
        ground.materialize()
        snapshots, backed_up, kept = ground.snapshot_records(), len(values(ground.bronze)), ground.rows_kept()
        for table in (NAME, KEPT):
            ground.change(f"INSERT INTO public.{table} VALUES (900, 'captured, not in the backup')")
        carry_to_lake(Chain(ground.platform, ground.source), deadline=180)
        ground.destroy_clusters_and_lake()
        damaged = ground.first_object()
        content = ground.flip(damaged)
        found = {table["table"]: table for table in ground.cdc.json("restore", NAME, code=1)}
        assert {name: table["outcome"] for name, table in found.items()} == {NAME: DAMAGED, KEPT: RESTORED}
        (said,) = found[NAME]["damage"]
        assert said.startswith(f"{damaged} has another content than its manifest says")
        assert ground.rows_kept() == kept
        ground.store.put(damaged, content)
        again = {table["table"]: table for table in ground.cdc.json("restore", NAME)}
        assert {name: table["outcome"] for name, table in again.items()} == {NAME: RESTORED, KEPT: THERE}
        assert sum(table["records"] for table in again.values()) >= backed_up
        assert all(set(table["positions"]) == {"0", "1"} for table in again.values())
        done = ground.cdc.json("restore", NAME, "--topics", "--connectors")
        assert {(each["cluster"], each["topic"]): each["records"] for each in done["topics"]} == {
            (cluster, topic.format(table=table)): again[table]["records"]
            for cluster, topic in (("core", f"{NAME}.public.{{table}}"), ("lake", f"core.{NAME}.public.{{table}}"))
            for table in (NAME, KEPT)
        }
        assert [(each["connector"], each["way"]) for each in done["connectors"]] == [(MIRROR, "goes on"), (CAPTURE, "goes on")]
        assert "where the backup ends" in done["connectors"][1]["reason"]
        ground.materialize()
    ground.all_is_well()
    for table in ground.source.tables:
        path = names.silver_path(ground.platform.lake, ground.source, table)
        assert "captured, not in the backup" in {row["v"] for row in values(path)}
    assert ground.snapshot_records() == snapshots
    compared = {each["table"]: each for each in ground.cdc.json("reconcile", NAME)}
    assert set(compared) == {f"{NAME}/{NAME}", f"{NAME}/{KEPT}"}
    for each in (*compared.values(), compared[f"{NAME}/{KEPT}"]["history"]):
        assert (each["verdict"], each["differences"]) == ("equal", []), each
    assert all(each["silver_rows"] == each["source_rows"] > 30 for each in compared.values())


@pytest.mark.all
def test_the_backup_knows_connectors_offsets_and_topics(ground: Ground) -> None:
    newest = newest_state(ground.store, NAME)
    assert newest is not None
    entry, state = newest
    assert f"source: {NAME}" in state.registry
    assert {name: about["role"] for name, about in state.connectors.items()} == {CAPTURE: "capture", MIRROR: "mirror"}
    password = state.connectors[CAPTURE]["config"]["database.password"]
    assert password.startswith("${dir:")
    assert state.offsets[CAPTURE][0]["offset"]["lsn"] > 0
    assert state.topics["lake"][COPY]["id"] == ground.platform.raw_lake_kafka().states([COPY])[COPY].topic_id
    assert state.topics["core"][TOPIC]["settings"]["retention.ms"] == "604800000"
    secret = ground.cdc.live.home.secret("live").encode()
    assert all(secret not in ground.store.get(item.key) for item in ground.store.list(f"{NAME}/platform-state/"))
    assert entry.number >= 1


@pytest.mark.all
def test_a_lake_topic_that_was_deleted_comes_back_under_writes(ground: Ground) -> None:
    """Twice: what was restored can be restored again."""
    for round_ in (1, 2):
        ground.change(
            f"UPDATE public.{NAME} SET v = 'before {round_}' WHERE id < 10", f"DELETE FROM public.{NAME} WHERE id = {round_}"
        )
        ground.materialize()
        ground.change(f"INSERT INTO public.{NAME} VALUES ({100 * round_}, 'copied, not in bronze')")
        carry_to_lake(Chain(ground.platform, ground.source), deadline=180)
        before = ground.records()
        ground.delete_copy()
        ground.change(f"INSERT INTO public.{NAME} VALUES ({100 * round_ + 1}, 'meanwhile')")
        (planned,) = ground.cdc.json("restore", NAME, "--topics", "--dry-run")["topics"]
        assert (planned["topic"], planned["records"]) == (COPY, len(before) - 1)
        (done,) = ground.cdc.json("restore", NAME, "--topics")["topics"]
        assert done["records"] == len(before) - 1
        ground.change(f"UPDATE public.{NAME} SET v = 'after {round_}' WHERE id = 15")
        ground.all_is_well()
        assert ground.begins_with(before)
        assert ground.cdc.json("restore", NAME, "--topics")["topics"] == []


@pytest.mark.all
def test_bronze_that_is_made_anew_of_a_restored_topic_is_the_same(ground: Ground) -> None:
    """It reads the restored records by the offsets that they had, so the backup goes on behind it."""
    before = {(r["partition"], r["offset"], r["key"], r["value"]) for r in values(ground.bronze)}
    shutil.rmtree(ground.bronze)
    for table in ground.source.tables:
        shutil.rmtree(names.silver_path(ground.platform.lake, ground.source, table))
    shutil.rmtree(names.history_path(ground.platform.lake, ground.source, ground.kept))
    ground.all_is_well()
    assert {(r["partition"], r["offset"], r["key"], r["value"]) for r in values(ground.bronze)} == before


@pytest.mark.all
def test_connectors_come_back_with_their_offsets(ground: Ground) -> None:
    """Connect has lost all that it knew of the core's connectors, and the mirror with its offsets is gone."""
    ground.materialize()
    ground.change(f"INSERT INTO public.{NAME} VALUES (300, 'behind the backup')")
    carry_to_lake(Chain(ground.platform, ground.source), deadline=180)
    snapshots = ground.snapshot_records()
    live, lake = ground.cdc.live, ground.cdc.lake
    worker = live.parts["core-connect"]
    worker.kill()
    core = ground.platform.core_kafka("core")
    topics = list(names.connect_topics("core").values())
    for topic in topics:
        core.delete_topic(topic)
    until(lambda: not core.existing(topics))
    worker.start()
    assert live.connect.connectors() == []
    lake.connect.stop(MIRROR)
    lake.connect.reset_offsets(MIRROR)
    lake.connect.delete(MIRROR)
    ground.change(f"INSERT INTO public.{NAME} VALUES (301, 'nobody captures')", f"DELETE FROM public.{NAME} WHERE id = 3")
    planned = ground.cdc.json("restore", NAME, "--connectors", "--dry-run")["connectors"]
    assert [(plan["connector"], plan["way"]) for plan in planned] == [(MIRROR, "goes on"), (CAPTURE, "goes on")]
    assert live.connect.connectors() == []
    done = ground.cdc.json("restore", NAME, "--connectors")["connectors"]
    assert [plan["way"] for plan in done] == ["goes on", "goes on"]
    ground.all_is_well()
    assert ground.snapshot_records() == snapshots
    again = ground.cdc.json("restore", NAME, "--connectors")["connectors"]
    assert [plan["way"] for plan in again] == ["is there", "is there"]


@pytest.mark.all
def test_a_dropped_slot_is_told_and_every_table_is_read_again(ground: Ground) -> None:
    ground.materialize()
    ground.lose_connectors()
    ground.await_idle_slot()
    ground.change(
        f"SELECT pg_drop_replication_slot('{names.slot_name(ground.source)}')",
        f"DELETE FROM public.{NAME} WHERE id = 4",
        f"INSERT INTO public.{NAME} VALUES (400, 'in the hole')",
    )
    (_, done) = ground.cdc.json("restore", NAME, "--connectors")["connectors"]
    assert done["way"] == "new epoch"
    assert "its replication slot is gone" in done["reason"]
    ground.epoch += 1
    ground.all_is_well()


@pytest.mark.all
def test_killed_before_its_commit_a_restore_is_done_anew(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads what is half restored: to bronze it is another topic until the commit."""
    before = ground.records()
    ground.delete_copy()

    def die(*_: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(lost_topics, "record_restored", die)
        with pytest.raises(KilledError):
            restore_topics(Chain(ground.platform, ground.source), print)
    found = look(Chain(ground.platform, ground.source), ground.source.tables)
    assert "was recreated" in found.gaps[ground.copy]
    ground.change(f"INSERT INTO public.{NAME} VALUES (500, 'meanwhile')")
    (done,) = ground.cdc.json("restore", NAME, "--topics")["topics"]
    assert done["records"] == len(before)
    ground.all_is_well()
    assert ground.begins_with(before)


@pytest.mark.all
def test_a_damaged_object_is_named_before_anything_is_changed(ground: Ground) -> None:
    key = ground.first_object()
    data = ground.flip(key)
    ground.delete_copy()
    until(lambda: ground.copy not in ground.platform.raw_lake_kafka().states([ground.copy]))
    with pytest.raises(BackupError, match=re.escape(key)):
        restore_topics(Chain(ground.platform, ground.source), print)
    status = ground.cdc.lake.connect.status(ground.mirror)
    assert status is not None
    assert status.state == "RUNNING"
    ground.store.put(key, data)
    assert len(ground.cdc.json("restore", NAME, "--topics")["topics"]) == 1
    ground.all_is_well()


@pytest.mark.all
def test_topics_of_both_clusters_and_connectors_come_back(ground: Ground) -> None:
    """Without a kept log: what the slot has given away to the lost topics is not sent again, so capture begins a new epoch."""
    ground.materialize()
    before = ground.records()
    ground.lose_connectors()
    ground.await_idle_slot()
    ground.change(f"SELECT pg_drop_replication_slot('{KEPT_SLOT}')")
    core = ground.platform.core_kafka("core")
    core.delete_topic(ground.topic)
    until(lambda: not core.existing([ground.topic]))
    ground.delete_copy()
    ground.change(f"DELETE FROM public.{NAME} WHERE id = 5", f"INSERT INTO public.{NAME} VALUES (600, 'nobody captures')")
    planned = ground.cdc.json("restore", NAME, "--topics", "--connectors", "--dry-run")
    assert [(each["cluster"], each["records"]) for each in planned["topics"]] == [("core", len(before)), ("lake", len(before))]
    done = ground.cdc.json("restore", NAME, "--topics", "--connectors")
    assert [each["records"] for each in done["topics"]] == [len(before), len(before)]
    assert [each["way"] for each in done["connectors"]] == ["goes on", "new epoch"]
    assert "what they alone held is gone" in done["connectors"][1]["reason"]
    ground.epoch += 1
    ground.all_is_well()
    assert ground.begins_with(before)
