"""A place of the log of a database that nobody asks for one: a row of ours, in a marker table that the connector captures.

Everything that was committed before the row lies before it in the log, and Debezium delivers in the order of commits.
"""

from __future__ import annotations

import time

from cdc_assets import names
from cdc_assets.errors import CaughtUpTimeoutError
from cdc_assets.registry.identifiers import TableId, parse_table
from cdc_assets.registry.models import CapturedSource
from cdc_assets.resources.kafka import KafkaCluster
from cdc_assets.resources.rows.open import open_reader
from cdc_assets.resources.rows.paged import RowReader
from cdc_assets.volumetry.log_position import CarriedPlace, LogMarker

_POLL_SECONDS = 0.5


def carry_by_row(marker: LogMarker) -> CarriedPlace:
    """Wait until the marker's row has come; without a declared marker table nothing is waited for, which is said.

    Raises:
        CaughtUpTimeoutError: it did not come in time.
    """
    source = marker.source.captured
    assert source is not None, marker.source.name
    declared = source.reconciliation.marker
    if declared is None:
        marker.limit.say("no marker table is declared (reconciliation: {marker: …}): what is on its way is not waited for")
        return CarriedPlace("unknown", None)
    reader = open_reader(source.database)
    return CarriedPlace(mark(marker.core, source, reader, parse_table(declared), marker.name, marker.limit.until), None)


def mark(core: KafkaCluster, source: CapturedSource, reader: RowReader, table: TableId, marker: str, until: float) -> str:
    """Commit the marker's row and wait until its record is in the core cluster; where it is.

    Raises:
        CaughtUpTimeoutError: the connector did not bring it until then (time.monotonic).
    """
    topic = names.topic_of(source, table)
    before = core.states([topic]).get(topic)
    read = dict(before.ends) if before else {}
    reader.mark(table, marker)
    while True:
        state = core.states([topic]).get(topic)
        ends = state.ends if state else {}
        for record in core.records(topic, {p: (read.get(p, 0), end) for p, end in ends.items()}):
            # The id stands as it is in JSON and in Avro alike.
            if marker.encode() in (record.value or b""):
                return f"{topic} {record.partition}:{record.offset}"
        read.update(ends)
        if time.monotonic() > until:
            raise CaughtUpTimeoutError(
                f"{source.name}: the row written to {table} did not arrive in topic {topic}; is the table captured (cdc apply), "
                f"and connector {names.connector_name(source)} running? ./cdc status"
            )
        time.sleep(_POLL_SECONDS)
