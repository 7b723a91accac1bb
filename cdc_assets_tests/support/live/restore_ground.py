"""A source on real clusters for the tests of a restore: captured, mirrored, carried and backed up by the product's own parts."""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import dagster as dg
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from cdc_assets.backup.platform_log import verify_state
from cdc_assets.backup.verification import verify_backup
from cdc_assets.capture.log_position import carry_to_lake
from cdc_assets.clients import platform as platform_clients
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.lake_assets import build_bronze_assets, build_silver_assets
from cdc_assets.defs.upkeep_assets import build_backup_assets
from cdc_assets.proof.volumetry import measure_transport
from cdc_assets.registry import names
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import Source
from cdc_assets.registry.table_declaration import Table
from cdc_assets_tests.e2e.source_rows import current_versions, silver_rows, source_rows
from cdc_assets_tests.support.lake.lake import rows, values
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.servers.endpoints import Endpoint

PARTITIONS = 2
TOLD = ("id", "v", "_cdc_position", "_valid_from", "_valid_to", "_is_current")
"""What a row of silver or of a history says whenever it is folded."""
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
    """Two tables, captured, mirrored and backed up by the product's own connectors and assets; the second one keeps its history.

    Their topics have two partitions each. What is lost alone, in the longer tests, is of the first table.
    """

    cdc: Cdc
    platform: Platform
    source: Source
    epoch: int = 0

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def topic(self) -> str:
        return names.topic(self.source, self.source.tables[0])

    @property
    def copy(self) -> str:
        return names.lake_topic(self.source, self.source.tables[0])

    @property
    def capture(self) -> str:
        return names.connector_name(self.source)

    @property
    def mirror(self) -> str:
        return names.mirror_connector_name(self.source)

    @property
    def bronze(self) -> str:
        return names.bronze_path(self.platform.lake, self.source)

    @property
    def silver(self) -> str:
        return names.silver_path(self.platform.lake, self.source, self.source.tables[0])

    @property
    def kept(self) -> Table:
        """The table with a history."""
        return self.source.tables[1]

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
        carry_to_lake(Chain(self.platform, self.source), deadline=180)
        assets = [build_bronze_assets(self.source), build_silver_assets(self.source), build_backup_assets(self.source)]
        with dg.DagsterInstance.ephemeral() as instance:
            assert dg.materialize(assets, instance=instance, resources={"platform": self.platform}).success

    def records(self) -> list[Seen]:
        return seen_by_reader(self.cdc.lake.bootstrap, self.copy)

    def all_is_well(self) -> None:
        """Silver is the table, bronze has every record of the topic once, and all counts say so."""
        self.materialize()
        transport = measure_transport(Chain(self.platform, self.source), self.source.tables, previous={})
        for table in self.source.tables:
            self._is_well(table)
            name = names.table_name(table)
            assert transport[name].equal, transport  # type: ignore[union-attr]
            report = verify_backup(self.store, source=self.name, table=name, bronze_path=self.bronze, deep=True)
            assert (report.differences, report.behind) == ((), 0)
        assert verify_state(self.store, self.name, deep=True) == ()

    def _is_well(self, table: Table) -> None:
        with self.cdc.live.connection() as connection:
            columns, expected = source_rows(connection, names.table_name(table))
        for path, rows_of in ((names.silver_path, silver_rows), (names.history_path, current_versions)):
            if path is names.silver_path or table.history == "scd2":
                assert rows_of(Path(path(self.platform.lake, self.source, table)), columns) == expected
        copy, topic = names.lake_topic(self.source, table), names.topic(self.source, table)
        bronze = [row for row in values(self.bronze) if row["topic"] == copy]
        assert max(row["epoch"] for row in bronze) == self.epoch
        assert {row["partition"] for row in bronze} == set(range(PARTITIONS))
        twice = {at: n for at, n in Counter((r["epoch"], r["partition"], r["offset"]) for r in bronze).items() if n > 1}
        assert not twice
        told = Counter((row["key"], row["value"]) for row in bronze)
        assert told == Counter((key, value) for _, key, value, _, _ in seen_by_reader(self.cdc.live.bootstrap, topic))

    def rows_kept(self) -> list[tuple[Any, ...]]:
        """All of the second table: silver's rows, and every version of its history, but for when and by what they were folded."""
        paths = [path(self.platform.lake, self.source, self.kept) for path in (names.silver_path, names.history_path)]
        return sorted(
            (n, *(str(row[name]) for name in TOLD if name in row)) for n, path in enumerate(paths) for row in rows(path)
        )

    def first_object(self) -> str:
        """The key of the first object with records in the first table's backup."""
        return next(item.key for item in self.store.list(f"{self.name}/{self.name}/") if item.key.endswith(".json.gz"))

    def flip(self, key: str) -> bytes:
        """One bit of the object; what it was before."""
        data: bytes = self.store.get(key)
        flipped = bytearray(data)
        flipped[len(data) // 2] ^= 1
        self.store.put(key, bytes(flipped))
        return data

    def begins_with(self, before: list[Seen]) -> bool:
        """Whether each partition of the lake's first topic has these records, in this order, before all others."""
        now = self.records()
        parts = ([[record for record in seen if record[0] == p] for seen in (before, now)] for p in range(PARTITIONS))
        return all(found[: len(was)] == was for was, found in parts)

    def delete_copy(self) -> None:
        before = self.platform.raw_lake_kafka().states([self.copy])[self.copy].topic_id
        self.platform.raw_lake_kafka().delete_topic(self.copy)
        until(
            lambda: (now := self.platform.raw_lake_kafka().states([self.copy]).get(self.copy)) is None or now.topic_id != before
        )

    def snapshot_records(self) -> int:
        """How many of bronze's events were read, and not streamed."""
        return sum(row["op"] == "r" for row in values(self.bronze))

    @contextmanager
    def writes(self) -> Iterator[None]:
        """Transactions follow each other within the block: rows come, change, take another key, and go."""
        done = Event()

        def write() -> int:
            with self.cdc.live.connection(autocommit=False) as connection:
                for n in count(10_000):
                    if done.wait(0.05):
                        return n
                    for table in map(names.table_name, self.source.tables):
                        connection.execute(f"INSERT INTO {table} VALUES ({n}, 'row {n}')".encode())
                        connection.execute(f"UPDATE {table} SET v = v || '.' WHERE id IN ({n - 3}, {n - 5})".encode())
                        connection.execute(f"UPDATE {table} SET id = id + 1000000 WHERE id = {n - 8}".encode())
                        connection.execute(f"DELETE FROM {table} WHERE id = {n - 6} AND id % 2 = 0".encode())
                    connection.commit()
            raise AssertionError("numbers have an end")

        with ThreadPoolExecutor(1) as pool:
            writer = pool.submit(write)
            try:
                yield
            finally:
                done.set()
            assert writer.result(60) > 10_000

    def destroy_clusters_and_lake(self) -> None:
        """What is left: the source's database, the backup, the registry's files and the secrets."""
        live, lake = self.cdc.live, self.cdc.lake
        brokers, workers = (
            [parts[f"{cluster}-{what}"] for cluster, parts in (("core", live.parts), ("lake", lake.parts))]
            for what in ("kafka", "connect")
        )
        for part in (*workers, *brokers):
            part.kill()
        for part in (*workers, *brokers):
            shutil.rmtree(part.component.data, ignore_errors=True)
        shutil.rmtree(self.platform.lake)
        for state in ("source-state", "cache", "locks"):
            shutil.rmtree(live.home.root / state, ignore_errors=True)
        Path(self.platform.lake).mkdir()
        # By this thread: a part dies with the thread that has started it.
        for part in (*brokers, *workers):
            part.start()
        # A client that has known the lost cluster does not make topics in the one that answers there now.
        with platform_clients._MAKING:
            platform_clients._OF_PROCESS.clear()
        self.platform = Platform()

    def lose_connectors(self) -> None:
        """Both are gone, with all that Connect had stored for them."""
        for connect, name in ((self.cdc.live.connect, self.capture), (self.cdc.lake.connect, self.mirror)):
            connect.stop(name)
            connect.reset_offsets(name)
            connect.delete(name)

    def await_idle_slot(self) -> None:
        with self.cdc.live.connection() as connection:
            active = f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{names.slot_name(self.source)}' AND active"
            until(lambda: connection.execute(active.encode()).fetchone() is None)


@contextmanager
def open_ground(
    make_cdc: Callable[[str], Cdc], remote: str, factory: pytest.TempPathFactory, name: str, bucket: Endpoint
) -> Iterator[Ground]:
    cdc, kept = make_cdc(name), f"{name}_kept"
    with cdc.live.connection() as connection:
        for table in (name, kept):
            connection.execute(f"CREATE TABLE public.{table} (id int PRIMARY KEY, v text)".encode())
            connection.execute(f"INSERT INTO public.{table} SELECT i, 'first' FROM generate_series(1, 20) i".encode())
    cdc.declare(f"public.{name}", f"public.{kept}, history: scd2", heartbeat="1s")
    file = cdc.folder / f"{name}.yaml"
    store = f"{{kind: s3, bucket: {bucket.config.bucket}, prefix: {name}, endpoint: '{bucket.config.endpoint}'}}"
    more = f"topics: {{partitions: {PARTITIONS}}}\nbackup: {{store: {store}, keep_log: true}}\n"
    file.write_text(file.read_text() + more)
    assert [row["summary"] for row in cdc.json("apply", name)] == ["created", "created"]
    source = load_source(file)
    assert isinstance(source, Source)
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in bucket.environment.items():
            patch.setenv(variable, value)
        patch.setenv("CDC_SPARK_REMOTE", remote)
        patch.setenv("CDC_LAKE", str(factory.mktemp("lake")))
        ground = Ground(cdc, Platform(), source)
        copies = [names.lake_topic(source, table) for table in source.tables]
        until(lambda: set(copies) <= set(ground.platform.lake_kafka().states(copies)))
        ground.all_is_well()
        yield ground
    cdc.lake.connect.delete(ground.mirror)
    cdc.live.connect.delete(ground.capture)
