"""Topics and connectors come back from the backup while the source is written to; the source's table is the oracle.

What a reader of the lake's topic saw before is what he sees after, and bronze has each of its records once.
"""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from cdc_assets import names
from cdc_assets.backup.platform import newest_state, verify_state
from cdc_assets.backup.verify import verify_backup
from cdc_assets.defs.assets.backup import build_backup_assets
from cdc_assets.defs.assets.bronze import build_bronze_assets
from cdc_assets.defs.assets.silver import build_silver_assets
from cdc_assets.registry.models import Source
from cdc_assets.registry_files.loader import load_source
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry.log_position import carry_to_lake
from cdc_assets.volumetry.measure import measure_transport
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.clusters import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

NAME = "regained"
TOPIC = f"{NAME}.public.{NAME}"
COPY = f"core.{TOPIC}"
CAPTURE, MIRROR = f"{NAME}-capture", f"{NAME}-mirror"
Seen = tuple[int, bytes | None, bytes | None, tuple[Any, ...], int]


def seen_by_reader(bootstrap: str, topic: str) -> list[Seen]:
    """Key, value, headers and time of every committed record, by a reader that is not the product's."""
    settings = {"group.id": uuid.uuid4().hex, "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, "enable.auto.commit": False, **settings})
    partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
    consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
    found: list[Seen] = []
    left = len(partitions)
    while left:
        message = consumer.poll(60)
        assert message is not None
        if message.error() is not None:
            left -= 1
            continue
        headers = tuple(message.headers() or ())
        found.append((message.partition() or 0, message.key(), message.value(), headers, message.timestamp()[1]))
    consumer.close()
    return sorted(found, key=lambda record: record[0])


@dataclass
class Ground:
    """One table, captured, mirrored and backed up by the product's own connectors and assets."""

    cdc: Cdc
    platform: Platform
    source: Source

    @property
    def bronze(self) -> str:
        return names.bronze_path(self.platform.lake, self.source)

    @property
    def store(self) -> Any:
        assert self.source.backup is not None
        return self.platform.store(self.source.backup.store)

    def change(self, *statements: str) -> None:
        with self.cdc.live.connection() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def materialize(self) -> None:
        """Bronze, silver and the backup, once all that is committed now is in the lake's topic."""
        carry_to_lake(self.platform, self.source, deadline=180)
        assets = [build_bronze_assets(self.source), build_silver_assets(self.source), build_backup_assets(self.source)]
        with dg.DagsterInstance.ephemeral() as instance:
            assert dg.materialize(assets, instance=instance, resources={"platform": self.platform}).success

    def copy(self) -> list[Seen]:
        return seen_by_reader(self.cdc.lake.bootstrap, COPY)

    def all_is_well(self, *, epoch: int = 0) -> None:
        """Silver is the table, bronze has every record of the topic once, and all counts say so."""
        self.materialize()
        silver = values(names.silver_path(self.platform.lake, self.source, self.source.tables[0]))
        with self.cdc.live.connection() as connection:
            rows = connection.execute(f"SELECT id, v FROM public.{NAME} ORDER BY id".encode()).fetchall()
        assert sorted((row["id"], row["v"]) for row in silver) == rows
        bronze = values(self.bronze)
        assert max(row["epoch"] for row in bronze) == epoch
        twice = {at: n for at, n in Counter((r["epoch"], r["partition"], r["offset"]) for r in bronze).items() if n > 1}
        assert not twice
        told = Counter((row["key"], row["value"]) for row in bronze)
        assert told == Counter((key, value) for _, key, value, _, _ in seen_by_reader(self.cdc.live.bootstrap, TOPIC))
        transport = measure_transport(self.platform, self.source, self.source.tables, previous={})[NAME]
        assert transport.equal, transport  # type: ignore[union-attr]
        report = verify_backup(self.store, source=NAME, table=NAME, bronze_path=self.bronze, deep=True)
        assert (report.differences, report.behind) == ((), 0)
        assert verify_state(self.store, NAME, deep=True) == ()

    def delete_copy(self) -> None:
        before = self.platform.raw_lake_kafka().states([COPY])[COPY].topic_id
        self.platform.raw_lake_kafka().delete_topic(COPY)
        until(lambda: (now := self.platform.raw_lake_kafka().states([COPY]).get(COPY)) is None or now.topic_id != before)


@pytest.fixture(scope="module")
def ground(
    make_cdc: Callable[[str], Cdc], remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    cdc = make_cdc(NAME)
    with cdc.live.connection() as connection:
        connection.execute(f"CREATE TABLE public.{NAME} (id int PRIMARY KEY, v text)".encode())
        connection.execute(f"INSERT INTO public.{NAME} SELECT i, 'first' FROM generate_series(1, 20) i".encode())
    cdc.declare(f"public.{NAME}", heartbeat="1s")
    bucket: Path = tmp_path_factory.mktemp("bucket")
    file = cdc.folder / f"{NAME}.yaml"
    file.write_text(file.read_text() + f"backup: {{store: {{kind: local, bucket: {bucket}, prefix: p}}}}\n")
    assert [row["summary"] for row in cdc.json("apply", NAME)] == ["created", "created"]
    source = load_source(file)
    assert isinstance(source, Source)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDC_SPARK_REMOTE", remote)
        patch.setenv("CDC_LAKE", str(tmp_path_factory.mktemp("lake")))
        ground = Ground(cdc, Platform(), source)
        until(lambda: COPY in ground.platform.lake_kafka().states([COPY]))
        ground.all_is_well()
        yield ground
    cdc.lake.connect.delete(MIRROR)
    cdc.live.connect.delete(CAPTURE)


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


def test_a_lake_topic_that_was_deleted_comes_back_under_writes(ground: Ground) -> None:
    """Twice: what was restored can be restored again."""
    for round_ in (1, 2):
        ground.change(
            f"UPDATE public.{NAME} SET v = 'before {round_}' WHERE id < 10", f"DELETE FROM public.{NAME} WHERE id = {round_}"
        )
        ground.materialize()
        ground.change(f"INSERT INTO public.{NAME} VALUES ({100 * round_}, 'copied, not in bronze')")
        carry_to_lake(ground.platform, ground.source, deadline=180)
        before = ground.copy()
        ground.delete_copy()
        ground.change(f"INSERT INTO public.{NAME} VALUES ({100 * round_ + 1}, 'meanwhile')")
        (planned,) = ground.cdc.json("restore", NAME, "--topics", "--dry-run")["topics"]
        assert (planned["topic"], planned["records"]) == (COPY, len(before) - 1)
        (done,) = ground.cdc.json("restore", NAME, "--topics")["topics"]
        assert done["records"] == len(before) - 1
        ground.change(f"UPDATE public.{NAME} SET v = 'after {round_}' WHERE id = 15")
        ground.all_is_well()
        assert ground.copy()[: len(before)] == before
        assert ground.cdc.json("restore", NAME, "--topics")["topics"] == []


def test_bronze_that_is_made_anew_of_a_restored_topic_is_the_same(ground: Ground) -> None:
    """It reads the restored records by the offsets that they had, so the backup goes on behind it."""
    before = {(r["partition"], r["offset"], r["key"], r["value"]) for r in values(ground.bronze)}
    shutil.rmtree(ground.bronze)
    shutil.rmtree(names.silver_path(ground.platform.lake, ground.source, ground.source.tables[0]))
    ground.all_is_well()
    assert {(r["partition"], r["offset"], r["key"], r["value"]) for r in values(ground.bronze)} == before


def test_connectors_come_back_with_their_offsets(ground: Ground) -> None:
    """Connect has lost all that it knew of the core's connectors, and the mirror with its offsets is gone."""
    ground.materialize()
    ground.change(f"INSERT INTO public.{NAME} VALUES (300, 'behind the backup')")
    carry_to_lake(ground.platform, ground.source, deadline=180)
    snapshots = sum(row["op"] == "r" for row in values(ground.bronze))
    live, lake = ground.cdc.live, ground.cdc.lake
    worker = live.parts["core-connect"]
    worker.kill()
    core = ground.platform.core_kafka()
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
    assert sum(row["op"] == "r" for row in values(ground.bronze)) == snapshots
    again = ground.cdc.json("restore", NAME, "--connectors")["connectors"]
    assert [plan["way"] for plan in again] == ["is there", "is there"]


def test_a_dropped_slot_is_told_and_every_table_is_read_again(ground: Ground) -> None:
    ground.materialize()
    connect = ground.cdc.live.connect
    connect.stop(CAPTURE)
    connect.reset_offsets(CAPTURE)
    connect.delete(CAPTURE)
    slot = names.slot_name(ground.source)
    active = f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{slot}' AND active"
    with ground.cdc.live.connection() as connection:
        until(lambda: connection.execute(active.encode()).fetchone() is None)
    ground.change(
        f"SELECT pg_drop_replication_slot('{slot}')",
        f"DELETE FROM public.{NAME} WHERE id = 4",
        f"INSERT INTO public.{NAME} VALUES (400, 'in the hole')",
    )
    (_, done) = ground.cdc.json("restore", NAME, "--connectors")["connectors"]
    assert done["way"] == "new epoch"
    assert "its replication slot is gone" in done["reason"]
    ground.all_is_well(epoch=1)
