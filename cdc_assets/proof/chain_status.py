"""Where each table's chain stands now, from logs and offsets alone: quick, no Spark, no source query, nothing waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cdc_assets.capture.log_position import mirror_offsets
from cdc_assets.clients.delta_log import bronze_committed, silver_committed, silver_rows
from cdc_assets.clients.kafka import KafkaCluster, TopicState
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof.capture_flow import LostSnapshot, read_lost_snapshots
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.table.commit_metadata import Committed, CommittedTopic


@dataclass(frozen=True)
class TableChain:
    """One table. Lags are in offsets (an upper bound of records), those of silver and history in records; None: not known.

    `history_lag` and `history_versions` are None of a table without a history (`history: scd2`). `bronze_records` are those of
    `bronze_epoch`.
    """

    source: str
    table: str
    mirror_lag: int | None = None
    bronze_lag: int | None = None
    bronze_records: int = 0
    bronze_epoch: int | None = None
    silver_lag: int | None = None
    silver_rows: int | None = None
    history_lag: int | None = None
    history_versions: int | None = None
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """For `cdc status -o json`."""
        return asdict(self)


@dataclass(frozen=True)
class SourceOffsets:
    """One look at a source's topics on both clusters, at what MirrorMaker has `copied`, and at what bronze has committed."""

    core: dict[str, TopicState]
    lake: dict[str, TopicState]
    copied: dict[tuple[str, int], int]
    committed: Committed | None
    lost: LostSnapshot


def chain_status(platform: Platform | None = None) -> list[TableChain]:
    """Every table of the registry; a service that does not answer is the table's `error`."""
    platform = platform or Platform()
    sources = load_sources(settings.sources_folder())
    chains: list[TableChain] = []
    lost: dict[str, LostSnapshot] = {}
    for source in sources:
        try:
            if names.is_mirrored(source) and source.name not in lost:
                lost |= _lost_snapshots(platform.core_kafka(source.cluster), source, sources)
            chains.extend(_of_source(Chain(platform, source), lost.get(source.name, LostSnapshot())))
        except CdcAssetsError as error:
            chains.extend(TableChain(source.name, names.table_name(table), error=str(error)) for table in source.tables)
    return chains


def _lost_snapshots(core: KafkaCluster, source: BaseSource, sources: Sequence[BaseSource]) -> dict[str, LostSnapshot]:
    """Of all that are mirrored, in one read; of this one alone where that fails, as it may be for another one's topic."""
    try:
        return read_lost_snapshots(
            core, [other for other in sources if names.is_mirrored(other) and other.cluster == source.cluster]
        )
    except CdcAssetsError:
        return read_lost_snapshots(core, [source])


def _of_source(chain: Chain[BaseSource], lost: LostSnapshot) -> list[TableChain]:
    mirrored = names.is_mirrored(chain.source)
    core = (
        chain.platform.core_kafka(chain.source.cluster).states(
            [names.topic(chain.source, table) for table in chain.source.tables]
        )
        if mirrored
        else {}
    )
    lake = chain.platform.lake_kafka().states([names.lake_topic(chain.source, table) for table in chain.source.tables])
    copied = mirror_offsets(chain.platform.lake_connect(), names.mirror_connector_name(chain.source)) if mirrored else {}
    committed = bronze_committed(chain.bronze_path)
    there = SourceOffsets(core, lake, copied, committed, lost)
    return [_of_table(chain, table, there) for table in chain.source.tables]


def _of_table(chain: Chain[BaseSource], table: Table, there: SourceOffsets) -> TableChain:
    topic, mirrored = names.topic(chain.source, table), names.lake_topic(chain.source, table)
    bronze = there.committed.topics.get(mirrored) if there.committed else None
    records = bronze.records if bronze else 0
    path = chain.silver_path(table)
    history = chain.history_path(table) if table.history == "scd2" else None
    at = bronze.positions if bronze else {}
    mirror_lag = bronze_lag = None
    if topic in there.core:
        # A control record follows the last record of a transaction: one offset of distance is none.
        ends = there.core[topic].ends
        mirror_lag = sum(max(0, end - 2 - there.copied.get((topic, p), -1)) for p, end in ends.items() if end)
    if mirrored in there.lake:
        bronze_lag = sum(max(0, end - at.get(p, 0)) for p, end in there.lake[mirrored].ends.items())
    return TableChain(
        source=chain.source.name,
        table=names.table_name(table),
        error=there.lost.message(chain.source, table) if table in there.lost.tables(chain.source) else None,
        mirror_lag=mirror_lag,
        bronze_lag=bronze_lag,
        bronze_records=records,
        bronze_epoch=bronze.epoch if bronze else None,
        silver_lag=_records_behind(bronze, path, mirrored),
        silver_rows=silver_rows(path),
        history_lag=_records_behind(bronze, history, mirrored) if history else None,
        history_versions=silver_rows(history) if history else None,
    )


def _records_behind(bronze: CommittedTopic | None, path: str, topic: str) -> int:
    folded = silver_committed(path)
    return bronze.records_ahead_of(folded.topics.get(topic) if folded else None) if bronze else 0
