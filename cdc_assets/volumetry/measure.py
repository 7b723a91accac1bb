"""Measures the tables of one source, all at one cut: the numbers behind the checks, `status` and `up`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError
from cdc_assets.registry.models import BaseSource, Source, Table
from cdc_assets.resources.delta_log import bronze_committed, bronze_rows, folded_positions, silver_state
from cdc_assets.resources.platform import Platform
from cdc_assets.volumetry.log_position import carry_to_lake
from cdc_assets.volumetry.row_count import RowCount, count_in_flight
from cdc_assets.volumetry.tally import TopicTally
from cdc_assets.volumetry.transport import TransportCount, count_transport

Previous = Mapping[str, tuple[TopicTally, TopicTally]]
# WAL order is not quite the order of visibility: a difference counts when it is seen again at another snapshot.
_ROW_COUNT_ATTEMPTS = 3


def measure_transport(
    platform: Platform, source: BaseSource, tables: Sequence[Table], *, previous: Previous
) -> dict[str, TransportCount | CdcAssetsError]:
    """Topic = mirror = bronze, by short table name; an error where a table cannot be counted."""
    path = names.bronze_path(platform.lake, source)
    committed = bronze_committed(path)
    epochs = {topic: state.epoch for topic, state in committed.topics.items() if state.epoch} if committed else {}
    rows = bronze_rows(path, committed.version, epochs) if committed else {}
    lake = platform.lake_kafka()
    core = platform.core_kafka() if names.is_mirrored(source) else lake
    core_states = core.states([names.topic(source, table) for table in tables])
    lake_states = lake.states([names.mirrored_topic(source, table) for table in tables])
    results: dict[str, TransportCount | CdcAssetsError] = {}
    for table in tables:
        topic, mirrored = names.topic(source, table), names.mirrored_topic(source, table)
        short = names.table_name(table)
        try:
            for name, states, cluster in ((topic, core_states, core), (mirrored, lake_states, lake)):
                if name not in states:
                    raise CdcAssetsError(f"topic {name} does not exist at {cluster.bootstrap}")
            at = committed.topics.get(mirrored) if committed else None
            cut = dict(at.positions) if at else {}
            results[short] = count_transport(
                core=core,
                lake=lake,
                core_state=core_states[topic],
                lake_state=lake_states[mirrored],
                cut=cut,
                bronze_rows={p: rows.get((mirrored, p), 0) for p in cut},
                previous=previous.get(short),
            )
        except CdcAssetsError as error:
            results[short] = error
    return results


def measure_rows(platform: Platform, source: Source, tables: Sequence[Table]) -> dict[str, RowCount | CdcAssetsError]:
    """Source rows = silver rows at one snapshot, by short table name."""
    results: dict[str, RowCount | CdcAssetsError] = {}
    left = list(tables)
    for _ in range(_ROW_COUNT_ATTEMPTS):
        results.update(_count_rows_once(platform, source, left))
        left = [t for t in left if not (isinstance(r := results[names.table_name(t)], RowCount) and r.equal)]
        if not left:
            break
    return results


def _count_rows_once(platform: Platform, source: Source, tables: Sequence[Table]) -> dict[str, RowCount | CdcAssetsError]:
    lake = platform.lake_kafka()
    # Silver first: whatever it has folded by now committed before the snapshot that is taken next.
    silver = {}
    for table in tables:
        silver[table.name] = silver_state(names.silver_path(platform.lake, source, table))
    snapshot, counts = platform.database(source).counts([table.id for table in tables])
    position = carry_to_lake(
        source,
        database=platform.database(source),
        core=platform.core_kafka(),
        lake=lake,
        lake_connect=platform.lake_connect(),
        core_connect=platform.core_connect(),
    )
    results: dict[str, RowCount | CdcAssetsError] = {}
    for table in tables:
        state = silver[table.name]
        topic = names.mirrored_topic(source, table)
        folded = folded_positions(state.folded if state else None, topic)
        try:
            flight = count_in_flight(
                lake,
                topic,
                folded=folded,
                upto=position.offsets.get(topic, {}),
                snapshot=snapshot,
                silver_is_empty=not folded,
            )
        except CdcAssetsError as error:
            results[names.table_name(table)] = error
            continue
        results[names.table_name(table)] = RowCount(
            source_rows=counts[table.id],
            silver_rows=state.rows if state else 0,
            silver_version=state.version if state else None,
            in_flight=flight.change,
            uncountable=flight.uncountable,
            snapshot=snapshot,
            lsn=position.lsn,
        )
    return results
