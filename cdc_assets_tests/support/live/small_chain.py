"""The chain of one live source without Dagster and MirrorMaker 2: real topics, a copier of records, bronze and silver jobs.

The copier stands where MirrorMaker 2 does. It copies committed records in order to `core.<topic>`, with their times: a
tombstone has no other, and is counted in that minute. It answers the REST question that `log_position` asks. `during` runs
once in the middle of a comparison: after the cut, before the carry ends.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cdc_assets.capture.source_columns import catalogue_of
from cdc_assets.chain.fold_specs import silver_spec
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.check_specs import HISTORY_RECONCILED
from cdc_assets.defs.volumetry_checks import history_check
from cdc_assets.proof.compared_table import ComparisonRequest
from cdc_assets.proof.comparison import compare_rows
from cdc_assets.proof.comparison_result import TableResult
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.live.live_binlog import LiveBinlog
from cdc_assets_tests.support.live.live_source import LiveSource
from spark.bronze import append_job as bronze
from spark.silver import small_tables as silver
from spark.specs import BronzeSpec, TopicRange

if TYPE_CHECKING:
    from spark.proof.key_order import TwoRanges
    from spark.proof.row_text import Slice


@dataclass
class Copier:
    """Answers as Kafka Connect does for the mirror connector, and copies when it is asked."""

    chain: SmallChain
    at: dict[str, dict[int, int]] = field(default_factory=dict)
    during: Callable[[], None] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def offsets(self, name: str) -> list[dict[str, Any]]:
        act, self.during = self.during, None
        if act is not None:
            act()
        self.copy()
        return [
            {"partition": {"topic": t, "partition": p}, "offset": {"offset": end - 1}}
            for t, ends in self.at.items()
            for p, end in ends.items()
        ]

    def copy(self) -> None:
        with self.lock:
            self._copy()

    def _copy(self) -> None:
        cluster = KafkaCluster(self.chain.live.bootstrap)
        producer = Producer({"bootstrap.servers": self.chain.live.bootstrap})
        for topic, state in cluster.states(self.chain.topics).items():
            done = self.at.setdefault(topic, {})
            ranges = {p: (done.get(p, 0), end) for p, end in state.ends.items()}
            for record in cluster.records(topic, ranges):
                headers = list(record.headers)
                at = {"timestamp": record.timestamp, "headers": headers}
                producer.produce(f"core.{topic}", record.value, record.key, record.partition, **at)
                producer.poll(0)
            done.update(state.ends)
        producer.flush()


@dataclass
class SmallChain:
    """One source's tables, captured; `live` is a LiveSource or a LiveBinlog, `root` the lake's."""

    live: Any
    remote: str
    root: Path | str
    source: Source
    session: Any
    copier: Copier | None = None

    def __post_init__(self) -> None:
        if self.copier is not None:
            return
        self.copier = Copier(self)
        admin = AdminClient({"bootstrap.servers": self.live.bootstrap})
        for future in admin.create_topics([NewTopic(f"core.{t}", 1, 1) for t in self.topics]).values():
            future.result(30)

    @property
    def _copier(self) -> Copier:
        assert self.copier is not None
        return self.copier

    @property
    def topics(self) -> list[str]:
        return [names.topic(self.source, table) for table in self.source.tables]

    @property
    def platform(self) -> Platform:
        copier = self._copier

        class WithCopier(Platform):
            def lake_connect(self) -> Any:
                return copier

        place = self.live.bootstrap
        return WithCopier(
            core_bootstrap=place,
            lake_bootstrap=place,
            core_connect_url=self.live.connect.url,
            spark_remote=self.remote,
            lake_root=str(self.root),
        )

    def advance(self, *, fold: bool = True, wait: bool = True, tables: Sequence[str] = ()) -> None:
        """Everything committed until now into bronze, and into silver, of `tables` alone; without `wait`, what was delivered."""
        if wait:
            self.live.delivered()
        self._copier.copy()
        cluster = KafkaCluster(self.live.bootstrap)
        mirrored = {names.lake_topic(self.source, t): t for t in self.source.tables}
        ranges = tuple(
            TopicRange(
                names.table_name(mirrored[topic]),
                topic,
                state.topic_id,
                0,
                {p: (0, end) for p, end in state.ends.items()},
                **self.source.record_form(mirrored[topic]),
            )
            for topic, state in cluster.states([*mirrored]).items()
        )
        path = names.bronze_path(str(self.root), self.source)
        bronze.run(self.session, BronzeSpec(path, self.live.bootstrap, ranges, uuid.uuid4().hex))
        if fold:
            self.fold(tables)

    def fold(self, tables: Sequence[str] = ()) -> None:
        chosen = [self.source.table(t) for t in tables] or list(self.source.tables)
        found = catalogue_of(Chain(self.platform, self.source), chosen)
        for table in chosen:
            silver.fold_one(self.session, silver_spec(str(self.root), self.source, table, found[table.id]))

    def silver(self, short: str) -> str:
        return names.silver_path(str(self.root), self.source, self.source.table(short))

    def history_told(self, short: str) -> tuple[bool, str, tuple[Any, Any]]:
        """The check `history_reconciled` as Dagster runs it: whether it passed, what it says, versions and current ones."""
        checks, key = history_check.build(self.source), HISTORY_RECONCILED.key(self.source, self.source.table(short))
        chosen = dg.AssetSelection.checks(key)
        result = dg.materialize(checks, selection=chosen, resources={"platform": self.platform})
        (told,) = result.get_asset_check_evaluations()
        counted = tuple(told.metadata[f"cdc/history_{what}"].value for what in ("versions", "current"))
        return told.passed, told.description or "", (counted[0], counted[1])

    def compare(
        self,
        tables: Sequence[str] = (),
        *,
        during: Callable[[], None] | None = None,
        slices: Mapping[str, Slice | TwoRanges] | None = None,
        view: bool = False,
    ) -> dict[str, TableResult]:
        self._copier.during = during
        chosen = [self.source.table(t) for t in tables] or list(self.source.tables)
        return compare_rows(Chain(self.platform, self.source), chosen, ComparisonRequest(slices or {}, view=view))


@contextmanager
def small_chain(
    live: LiveSource | LiveBinlog, remote: str, session: Any, root: Path | str, tables: Sequence[Any]
) -> Iterator[SmallChain]:
    """The tables are there and filled; they are captured, and silver is up to date."""
    live.capture(tables)
    with live.settings():
        live.delivered()
        chain = SmallChain(live, remote, root, live.source(tables), session)
        chain.advance()
        yield chain
