"""Success with nothing done: a connector that runs, while changes of the source do not become events.

1. The source's own counters are read, and compared with those of the last check that passed.
2. A marker is written into the log and awaited in its topic: what the counters show and was committed has been sent by
   then, if it was to be sent at all.
3. A table whose counters have moved must have a committed event since. Counters move for rolled back changes too, so
   before a table without events is called silent, one of these must say that something was committed: no transaction of
   the database was rolled back meanwhile; its live rows have changed in number; a row of it is from a transaction since.

Found at once, without counters: a table that is not in the publication, or not in the list of the connector that runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cdc_assets import names
from cdc_assets.connectors.postgresql import capture_config
from cdc_assets.registry.models import Source, Table
from cdc_assets.resources.databases.postgresql_activity import Activity, Counters, PostgresActivity
from cdc_assets.resources.kafka import KafkaCluster
from cdc_assets.volumetry.log_position import await_in_core


@dataclass(frozen=True)
class Flow:
    """What a check found: one text per silent table, changes and events per table, and what the next one starts from."""

    silent: dict[str, str]
    changes: dict[str, int] = field(default_factory=dict)
    events: dict[str, bool] = field(default_factory=dict)
    baseline: dict[str, Any] = field(default_factory=dict)


def measure_flow(
    source: Source,
    *,
    database: PostgresActivity,
    core: KafkaCluster,
    config: Mapping[str, str] | None,
    previous: Mapping[str, Any] | None,
    deadline: float = 60.0,
) -> Flow:
    """Compare the source's counters with the committed events since `previous`, the baseline of the last passed check.

    Raises:
        CaughtUpTimeoutError: not even the marker comes through.
    """
    ids = [table.id for table in source.tables]
    topics = {table.name: names.topic(source, table) for table in source.tables}
    now = database.activity(ids)
    await_in_core(source, database=database, core=core, deadline=deadline)
    ends = {name: dict(state.ends) for name, state in core.states(list(topics.values())).items()}
    silent = _uncaptured(source, database, config)
    changes: dict[str, int] = {}
    events: dict[str, bool] = {}
    before = previous if previous and previous["reset"] == now.reset else None
    for table in source.tables if before else ():
        known, counters = before["tables"].get(table.name) if before else None, now.tables.get(table.id)
        if known is None or counters is None or before is None:
            continue
        was, topic = Counters(**known), topics[table.name]
        changes[table.name] = counters.changes - was.changes
        start = before["ends"].get(topic, {})
        ranges = {p: (int(start.get(str(p), 0)), end) for p, end in ends.get(topic, {}).items()}
        events[table.name] = _any(core, topic, ranges)
        if changes[table.name] > 0 and not events[table.name] and _committed(database, table, was, counters, before, now):
            said = f"{changes[table.name]} row changes at the source since the last check, and no event in topic {topic}"
            silent.setdefault(table.name, said)
    named = {topic: {str(p): end for p, end in found.items()} for topic, found in ends.items()}
    return Flow(silent, changes, events, {**now.to_json(), "ends": named})


def _any(core: KafkaCluster, topic: str, ranges: Mapping[int, tuple[int, int]]) -> bool:
    kept = {p: (start, end) for p, (start, end) in ranges.items() if start < end}
    return bool(kept) and next(core.records(topic, kept), None) is not None


def _uncaptured(source: Source, database: PostgresActivity, config: Mapping[str, str] | None) -> dict[str, str]:
    name, publication = names.connector_name(source), names.publication_name(source)
    if config is None:
        return {table.name: f"connector {name} does not exist" for table in source.tables}
    # The names that run may differ from those declared now: the connector's own config is what holds.
    publication = config.get("publication.name", publication)
    published = database.published(publication)
    listed = config.get("table.include.list", capture_config(source)["table.include.list"])
    patterns = [re.compile(part, re.IGNORECASE) for part in listed.split(",")]
    silent = {}
    for table in source.tables:
        full = f"{table.id.schema}.{table.id.table}"
        if not any(pattern.fullmatch(full) for pattern in patterns):
            silent[table.name] = f"not in table.include.list of the running connector {name}: materialize the connector asset"
        elif table.id not in published:
            silent[table.name] = (
                f"not in publication {publication}: its changes are not decoded and are lost to the log; "
                f"ALTER PUBLICATION {publication} ADD TABLE {table.name}, then take a snapshot of the table"
            )
    return silent


def _committed(
    database: PostgresActivity, table: Table, was: Counters, now: Counters, before: Mapping[str, Any], activity: Activity
) -> bool:
    if activity.rollbacks == before["rollbacks"]:
        return True
    if now.kept == was.kept and now.live != was.live:
        return True
    return bool(database.changed_since(table.id, before["next_xid"]))
