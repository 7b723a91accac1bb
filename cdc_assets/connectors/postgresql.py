"""The Debezium PostgreSQL connector of a source: registry in, Connect config out.

Options: https://debezium.io/documentation/reference/3.7/connectors/postgresql.html
"""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets import names
from cdc_assets.connectors import debezium_common as common
from cdc_assets.connectors.certificates import postgresql_tls
from cdc_assets.connectors.kept_settings import beside_settings, transforms_of
from cdc_assets.connectors.marker_prefix import DRAWN_PREFIX
from cdc_assets.connectors.postgresql_statements import ON_CONNECT, initial_statements, refuse_time_zone
from cdc_assets.connectors.unchanged_value import DECLARED, HEADER_CONVERTER, with_public_text
from cdc_assets.kinds import expect
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.postgresql import Database
from cdc_assets.registry.value_forms import ValueForms
from spark.delta.identifiers import double_quote
from spark.kinds.record_marks import ANCHOR_HEADER

# What pgoutput writes follows the role's settings. Debezium reads bytea in hexadecimal digits alone, and passes on the text of
# what it does not know. The driver itself sets DateStyle and TimeZone. 3: servers before version 12 add so many digits.
_TEXTS = "-c bytea_output=hex -c IntervalStyle=postgres -c extra_float_digits=3"


def capture_config(source: CapturedSource) -> dict[str, str]:
    """The connector's whole config. The password is a `${dir:…}` placeholder that the worker resolves itself."""
    database = expect(source.database, Database)
    return {
        **common.base_settings(source, "postgresql.PostgresConnector"),
        **_connection(database),
        **common.NAMED_COLUMNS,
        "plugin.name": "pgoutput",
        "slot.name": names.slot_name(source),
        # Version 17 and newer keep such a slot on standbys too, where the server is set up for it; older ones ignore it.
        "slot.failover": "true",
        "publication.name": names.publication_name(source),
        "publication.autocreate.mode": "filtered",
        # Changes of a partitioned table come under its own name, and not under those of its partitions, which no list has.
        "publish.via.partition.root": "true",
        # The signal table may be made later: a pattern without a table is no error, and no table is made for it here.
        "table.include.list": ",".join(
            common.exact_pattern(*table) for table in (*(t.id for t in source.tables), names.signal_table(source))
        ),
        # Fails where the slot has not kept the offset's log; a slot that was only moved is told by incarnation.judge.
        "offset.mismatch.strategy": "trust_offset",
        ON_CONNECT: initial_statements(source),
        # An idle captured database must not hold back the log; the message also is a marker that needs no table. One that is no
        # transaction would say of itself that it is the last commit, and hide what was before it (incarnation.starts).
        "heartbeat.interval.ms": common.heartbeat_ms(source),
        "heartbeat.action.query": f"SELECT pg_logical_emit_message(true, '{DRAWN_PREFIX}', 'heartbeat')",
        "message.prefix.include.list": DRAWN_PREFIX,
        **common.source_signal_settings(source),
        **common.notification_settings(source),
        **_value_modes(source.values),
        **DECLARED,
        **_own_rows(source),
        **common.record_settings(source),
    }


def _connection(database: Database) -> dict[str, str]:
    return {
        **common.database_settings(database),
        "database.dbname": database.dbname,
        **postgresql_tls(database),
        "driver.options": _TEXTS,
    }


def _value_modes(values: ValueForms) -> dict[str, str]:
    return {
        # Of `binary`: in JSON the same base64 as the mode of that name, which sends NULL for an unchanged TOASTed bytea.
        **common.value_settings(values),
        "interval.handling.mode": values.interval,
        "hstore.handling.mode": values.hstore,
        # Types that Debezium does not know come as the bytes of their text; the default leaves their columns out.
        "include.unknown.datatypes": "true" if values.unknown == "include" else "false",
    }


def _own_rows(source: CapturedSource) -> dict[str, str]:
    """The snapshot's SELECT for tables from which others inherit."""
    key, tables = "snapshot.select.statement.overrides", [table.id for table in source.tables if table.only]
    each = {f"{key}.{'.'.join(table)}": f"SELECT * FROM ONLY {double_quote(*table)}" for table in tables}
    return {key: ",".join(".".join(table) for table in tables), **each} if tables else {}


def temporary_config(source: CapturedSource, tables: Sequence[Table], *, anchor: int | str) -> dict[str, str]:
    """A connector that reads these tables once into their topics, beside the source's own, and streams nothing.

    Each of its rows says in a header behind which commit it stands (spark.bronze.drafts).
    """
    # It reads whole rows alone.
    alone = source.model_copy(update={"tables": tuple(tables)})
    config = with_public_text(beside_settings(alone, capture_config(alone)))
    kept = {key: value for key, value in config.items() if not key.startswith(("signal.", "heartbeat."))}
    return {
        **kept,
        # Its slot is not noted.
        ON_CONNECT: refuse_time_zone(alone),
        "name": names.temporary(config["name"]),
        "slot.name": names.temporary(config["slot.name"]),
        "slot.failover": "false",
        "publication.name": names.temporary(config["publication.name"]),
        "table.include.list": ",".join(common.exact_pattern(*table.id) for table in tables),
        "snapshot.mode": "initial_only",
        # Two connectors with one topic prefix in one worker would register one and the same JMX bean.
        "custom.metric.tags": "role=onboard",
        "transforms": ",".join([*transforms_of(config), "anchor"]),
        "transforms.anchor.type": "org.apache.kafka.connect.transforms.InsertHeader",
        "transforms.anchor.header": ANCHOR_HEADER,
        "transforms.anchor.value.literal": str(anchor),
        "header.converter": HEADER_CONVERTER,
    }
