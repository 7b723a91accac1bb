"""The Debezium MongoDB connector: registry in, Connect config out.

Options: https://debezium.io/documentation/reference/3.6/connectors/mongodb.html
"""

from __future__ import annotations

from urllib.parse import urlencode

from cdc_assets import names, settings
from cdc_assets.connectors.debezium_common import heartbeat_ms, password_placeholder, record_settings, table_pattern
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.mongodb import MongoDb

_CAPTURE_MODES = {"full": "change_streams_update_full", "with_pre_image": "change_streams_update_full_with_pre_image"}
# MongoDB has no TRUNCATE, and no message key columns: a document's key is its _id.
_NOT_HERE = ("message.key.columns",)


def capture_config(source: CapturedSource) -> dict[str, str]:
    """The connector's whole config. User and password are no part of the connection string."""
    database = source.database
    assert isinstance(database, MongoDb)
    hosts = settings.resolve(database.hosts)
    options = {"replicaSet": database.replica_set, "tls": "true" if database.encrypts(hosts) else None}
    query = urlencode({key: value for key, value in options.items() if value})
    common = {key: value for key, value in record_settings(source).items() if key not in _NOT_HERE}
    return {
        "name": names.connector_name(source),
        "connector.class": "io.debezium.connector.mongodb.MongoDbConnector",
        "tasks.max": "1",
        "mongodb.connection.string": f"mongodb://{hosts}/" + (f"?{query}" if query else ""),
        "mongodb.user": settings.resolve(database.user),
        "mongodb.password": password_placeholder(database.password),
        "mongodb.authsource": database.auth_source,
        "topic.prefix": source.name,
        "database.include.list": ",".join(sorted({table_pattern(t.id.schema) for t in source.tables})),
        "collection.include.list": ",".join(table_pattern(*t.id) for t in source.tables),
        "capture.mode": _CAPTURE_MODES[database.images],
        "snapshot.mode": source.capture.snapshot,
        # A resume token of long ago is gone from the oplog: an idle collection must move on as well.
        "heartbeat.interval.ms": heartbeat_ms(source),
        **common,
    }
