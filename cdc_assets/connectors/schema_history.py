"""The topic in which a connector keeps the tables' definitions as they were at each position of the log.

Without it the connector cannot read its log any more, so it must never expire: Debezium makes it with infinite retention,
and one partition, since its order is its meaning.
"""

from __future__ import annotations

from cdc_assets import names, settings
from cdc_assets.connectors.logins import login
from cdc_assets.registry.models import BaseSource


def schema_history(source: BaseSource) -> dict[str, str]:
    """Its settings, for connectors that need one."""
    return {
        "schema.history.internal.kafka.topic": names.schema_history_topic(source),
        "schema.history.internal.kafka.bootstrap.servers": settings.address(settings.variable(source.cluster, "BOOTSTRAP")),
        **login(source.cluster, "schema.history.internal.consumer.", "schema.history.internal.producer."),
        # Definitions of all tables of these databases, so that one declared later needs no new history.
        "schema.history.internal.store.only.captured.tables.ddl": "false",
        # A statement that is not understood may change a table.
        "schema.history.internal.skip.unparseable.ddl": "false",
        "include.schema.changes": "false",
    }
