"""The ledger's one cut: folds that come while it asks how far the topics reach, and a ledger that was counted at two cuts."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka.admin import NewTopic
from deltalake import CommitProperties, DeltaTable, write_deltalake

from cdc_assets.capture.source_columns import catalogue_of
from cdc_assets.chain.bronze_append import append, look
from cdc_assets.chain.fold_specs import silver_spec
from cdc_assets.clients.kafka import KafkaCluster, TopicState
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof.event_ledger import count_events, hops, ledger_spec, places, read_windows
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import TopicSource
from cdc_assets_tests.support.lake.lake import rows
from cdc_assets_tests.support.lake.ledger_records import Made, sent
from cdc_assets_tests.support.lake.topics import PATIENCE, Broker
from spark.proof import ledger_job
from spark.silver import fold_job as silver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class Interrupted(KafkaCluster):
    """A cluster that does something once, when it has been asked for the ends of topics."""

    then: Callable[[], None] | None = None

    def states(self, topics: Any) -> dict[str, TopicState]:
        found = super().states(topics)
        act, self.then = self.then, None
        if act is not None:
            act()
        return found


class OwnChain:
    """One topic and its copy on a real broker, bronze and silver by the product's own steps, and the ledger of them."""

    def __init__(self, kafka: str, remote: str, session: SparkSession, lake: Path, partitions: int) -> None:
        self.broker, self.session, self.lake = Broker(kafka), session, str(lake)
        self.topic = f"feeds.t{uuid.uuid4().hex[:8]}"
        admin = self.broker.admin
        for made in admin.create_topics([NewTopic(t, partitions, 1) for t in (self.topic, f"core.{self.topic}")]).values():
            made.result(PATIENCE)
        form = {"envelope": "debezium-json", "connector": "postgresql"}
        table = {"name": "t", "topic": self.topic, **form, "keys": ["id"], "columns": {"id": "integer not null", "v": "text"}}
        self.source = TopicSource.model_validate({"source": "feeds", "kind": "topics", "tables": [table]})
        core = self.core = Interrupted(kafka)

        class WithCore(Platform):
            def core_kafka(self, cluster: str) -> KafkaCluster:
                return core

        self.platform = WithCore(core_bootstrap=kafka, lake_bootstrap=kafka, spark_remote=remote, lake_root=self.lake)
        for topic in (self.topic, f"core.{self.topic}"):
            core.await_state(topic, deadline=PATIENCE)

    def arrive(self, *made: Made, partition: int = 0) -> None:
        """Records of the topic that reach its copy, bronze and silver."""
        for topic in (self.topic, f"core.{self.topic}"):
            self.broker.send(topic, [sent(m) for m in made], partition=partition)
        append(
            Chain(self.platform, self.source), look(Chain(self.platform, self.source), self.source.tables), "test", lambda _: None
        )
        (table,) = self.source.tables
        found = catalogue_of(Chain(self.platform, self.source), [table])[table.id]
        silver.run(self.session, silver_spec(self.lake, self.source, table, found))

    def count(self, *, again: bool = False) -> None:
        count_events(Chain(self.platform, self.source), self.source.tables, again=again)

    def told(self) -> tuple[list[str], dict[str, int]]:
        """What does not balance, by minute; and the sums of the links, read from the table itself by delta-rs."""
        windows = read_windows(self.lake, self.source, self.source.tables[0])
        judged = hops(windows, places(self.lake, self.source)["t"])
        said = [hop.sentence() for hop in judged if not hop.balanced]
        panes = rows(self.ledger)
        return said, {link: sum(row[link] or 0 for row in panes) for link in ("topic", "mirror", "bronze")}

    @property
    def ledger(self) -> str:
        return names.ledger_path(self.lake, self.source)


def balanced(n: int) -> tuple[list[str], dict[str, int]]:
    return [], dict.fromkeys(("topic", "mirror", "bronze"), n)


@pytest.fixture
def chain(request: pytest.FixtureRequest, kafka: str, remote: str, session: SparkSession, tmp_path: Path) -> OwnChain:
    request.getfixturevalue("monkeypatch").setenv("CDC_HOME", str(tmp_path / "home"))
    return OwnChain(kafka, remote, session, tmp_path / "lake", 2)


@pytest.mark.all
def test_a_fold_between_the_ends_and_the_count_is_counted_in_every_link_or_in_none(chain: OwnChain) -> None:
    """It was counted in the mirror and not in the topic, for good. Before the ends, behind them, and at the next count."""
    chain.arrive(Made("c", 1, 10, 0), Made("c", 2, 11, 0))
    chain.core.then = lambda: chain.arrive(Made("u", 1, 20, 5), Made("u", 2, 21, 6), Made("u", 2, 22, 7))
    chain.count()
    assert chain.told() == balanced(2)
    chain.count()
    assert chain.told() == balanced(5)


@contextmanager
def two_cuts(monkeypatch: pytest.MonkeyPatch, ends: Mapping[str, TopicState]) -> Iterator[None]:
    """A count as it was made before: the core topic's ends of an earlier moment, the lake as it is now."""
    with monkeypatch.context() as patch:
        patch.setattr(Interrupted, "states", lambda self, topics: dict(ends))
        yield


def forget(chain: OwnChain) -> None:
    """The ledger's place as it was written before: without what is missing in the topic."""
    table = DeltaTable(chain.ledger)
    said = json.loads(table.history(1)[0]["userMetadata"])
    for place in said["tables"].values():
        place.pop("missing", None)
    note = CommitProperties(custom_metadata={"userMetadata": json.dumps(said)})
    write_deltalake(chain.ledger, table.to_pyarrow_table().slice(0, 0), mode="append", commit_properties=note)


def uncount(chain: OwnChain) -> None:
    """The ledger's place and panes as they are written while a topic cannot be counted."""
    table = DeltaTable(chain.ledger)
    said = json.loads(table.history(1)[0]["userMetadata"])
    said["tables"]["t"]["uncounted"] = "the broker was away"
    panes = table.to_pyarrow_table()
    for link in ("topic", "mirror"):
        gone = pa.nulls(panes.num_rows, pa.int64())
        panes = panes.set_column(panes.schema.get_field_index(link), panes.schema.field(link), gone)
    note = CommitProperties(custom_metadata={"userMetadata": json.dumps(said)})
    write_deltalake(chain.ledger, panes, mode="overwrite", commit_properties=note)


@pytest.mark.all
def test_a_ledger_that_was_counted_at_two_cuts_is_mended(
    chain: OwnChain, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the next count of news, and by `--again`; written by today's job, or by one that did not keep what was missing."""
    chain.arrive(Made("c", 1, 10, 0))
    chain.arrive(Made("c", 5, 11, 0), partition=1)
    ends = chain.core.states([chain.topic])
    chain.arrive(Made("u", 1, 20, 5), Made("u", 1, 21, 6))
    chain.arrive(Made("u", 5, 22, 5), partition=1)
    with two_cuts(monkeypatch, ends):
        chain.count()
    said, sums = chain.told()
    assert (sums["topic"], sums["mirror"]) == (2, 5)
    assert said == ["2 windows out of balance; the first is 2026-01-01 00:05 u: 0 in topic, 2 in mirror"]
    shutil.copytree(chain.ledger, tmp_path / "red")
    chain.arrive(Made("u", 1, 30, 8))

    def told_by(again: bool, *, before: Callable[[OwnChain], None] | None) -> tuple[list[str], dict[str, int]]:
        shutil.rmtree(chain.ledger)
        shutil.copytree(tmp_path / "red", chain.ledger)
        if before is not None:
            before(chain)
        chain.count(again=again)
        return chain.told()

    assert told_by(False, before=None) == balanced(6)
    assert told_by(False, before=forget) == balanced(6)
    assert told_by(True, before=forget) == balanced(6)
    # Once not counted they stayed so, also where the topics hold every record.
    assert told_by(True, before=uncount) == balanced(6)
    assert ledger_job.run(chain.session, ledger_spec(Chain(chain.platform, chain.source), chain.source.tables)).version is None
