"""The bronze assets: exactly the committed records, appended to the source's change log, each once.

One Kafka read and one Delta commit for all tables of the step. Ranges are worked out here, from the log and the
topics as they are now, never from what a sensor saw. A table whose topic contradicts the log fails by itself.
"""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack

import dagster as dg

from cdc_assets import names
from cdc_assets.assets.bronze_ranges import Ranges, batches, pending_ranges, width
from cdc_assets.assets.each_table import selected_tables
from cdc_assets.assets.record_form import record_form
from cdc_assets.assets.specs import table_spec
from cdc_assets.errors import CdcAssetsError, TableFailuresError, TopicGapError
from cdc_assets.registry.models import BaseSource, Table
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.kafka import TopicState
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import table_lock
from spark.commits import TopicState as TopicCommitted
from spark.specs import BronzeSpec, TopicRange


def build_bronze_assets(source: BaseSource) -> dg.AssetsDefinition:
    """One step for all tables of the source."""

    @dg.multi_asset(
        specs=[table_spec("bronze", source, table) for table in source.tables], name=f"bronze_{source.name}", can_subset=True
    )
    def bronze(context: dg.AssetExecutionContext, platform: Platform) -> Iterator[dg.MaterializeResult]:
        tables = sorted(selected_tables(context, "bronze", source), key=lambda table: table.name)
        with ExitStack() as locks:
            for table in tables:  # in one order, so that two runs cannot wait for each other
                locks.enter_context(table_lock("bronze", source.name, names.table_name(table)))
            yield from append_news(context, platform, source, tables)

    return bronze


def append_news(
    context: dg.AssetExecutionContext, platform: Platform, source: BaseSource, tables: list[Table]
) -> Iterator[dg.MaterializeResult]:
    """Append what the tables' topics hold beyond bronze, up to the last stable offsets of this moment."""
    from spark import bronze as bronze_job

    path = names.bronze_path(platform.lake, source)
    topics = {names.mirrored_topic(source, table): table for table in tables}
    states = platform.lake_kafka().states(list(topics))
    committed = bronze_committed(path)
    before = committed.topics if committed else {}
    failures: dict[str, str] = {}
    pending: dict[str, Ranges] = {}
    for topic, table in topics.items():
        try:
            pending[topic] = _pending(topic, states.get(topic), before.get(topic))
        except CdcAssetsError as error:
            failures[names.table_name(table)] = str(error)

    seconds = 0.0
    work = {topic: list(batches(ranges, max_records=source.batching.max_records)) for topic, ranges in pending.items()}
    for topic, ranges in pending.items():
        if topic not in before and not work[topic]:
            work[topic] = [ranges]  # an empty topic is committed as such, so that silver makes an empty table
    for number in range(max((len(parts) for parts in work.values()), default=0)):
        parts = {topic: chunks[number] for topic, chunks in work.items() if number < len(chunks)}
        spec = BronzeSpec(
            path=path,
            bootstrap=platform.lake_kafka().bootstrap,
            topics=tuple(
                TopicRange(
                    *(names.table_name(topics[topic]), topic, states[topic].topic_id, 0, ranges),
                    **record_form(source, topics[topic]),
                )
                for topic, ranges in parts.items()
            ),
            operation_id=f"{context.run.run_id}:{uuid.uuid4().hex[:8]}",
            kafka_options={},
        )
        result = platform.spark().run(bronze_job.run, spec)
        seconds += result.seconds
        context.log.info("batch %d: %d records of %d tables in %.2f s", number + 1, result.rows_read, len(parts), result.seconds)

    after = bronze_committed(path)
    for topic in pending:
        table, now = topics[topic], after.topics.get(topic) if after else None
        was = before.get(topic)
        added = (now.records if now else 0) - (was.records if was else 0)
        yield dg.MaterializeResult(
            asset_key=dg.AssetKey(names.asset_key("bronze", source, table)),
            metadata={
                "dagster/row_count": now.records if now else 0,
                "cdc/records_appended": added,
                "cdc/offset_ranges": dg.MetadataValue.json({str(p): list(r) for p, r in sorted(pending[topic].items())}),
                "cdc/offsets_read": width(pending[topic]),
                "cdc/delta_version": after.version if after else -1,
                "cdc/batches": len(work[topic]),
                "cdc/seconds": round(seconds, 3),
                "cdc/records_per_second": round(added / seconds) if seconds else 0,
            },
        )
    if failures:
        raise TableFailuresError("bronze", failures)


def _pending(topic: str, state: TopicState | None, known: TopicCommitted | None) -> Ranges:
    if state is None:
        raise TopicGapError(f"topic {topic} does not exist yet on the lake's cluster; materialize its mirror asset first")
    return pending_ranges(state, positions=known.positions if known else None, topic_id=known.topic_id if known else None)
