"""The Debezium MongoDB connector: registry in, Connect config out.

Options: https://debezium.io/documentation/reference/3.6/connectors/mongodb.html
"""

from __future__ import annotations

from urllib.parse import urlencode

from cdc_assets import settings
from cdc_assets.connectors import debezium_common as common
from cdc_assets.connectors.secret_placeholder import password_placeholder
from cdc_assets.kinds import expect
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.mongodb import MongoDb

_CAPTURE_MODES = {"full": "change_streams_update_full", "with_pre_image": "change_streams_update_full_with_pre_image"}
# MongoDB has no TRUNCATE, and no message key columns: a document's key is its _id.
_NOT_HERE = ("message.key.columns",)


def capture_config(source: CapturedSource) -> dict[str, str]:
    """The connector's whole config. User and password are no part of the connection string."""
    database = expect(source.database, MongoDb)
    hosts = settings.resolve(database.hosts)
    options = {"replicaSet": database.replica_set, "tls": "true" if database.encrypts(hosts) else None}
    query = urlencode({key: value for key, value in options.items() if value})
    records = {key: value for key, value in common.record_settings(source).items() if key not in _NOT_HERE}
    return {
        **common.base_settings(source, "mongodb.MongoDbConnector"),
        "mongodb.connection.string": f"mongodb://{hosts}/" + (f"?{query}" if query else ""),
        "mongodb.user": settings.resolve(database.user),
        "mongodb.password": password_placeholder(database.password),
        "mongodb.authsource": database.auth_source,
        "database.include.list": ",".join(sorted({common.table_pattern(t.id.schema) for t in source.tables})),
        "collection.include.list": ",".join(common.table_pattern(*t.id) for t in source.tables),
        "capture.mode": _CAPTURE_MODES[database.images],
        **common.notification_settings(source),
        # A resume token of long ago is gone from the oplog: an idle collection must move on as well.
        "heartbeat.interval.ms": common.heartbeat_ms(source),
        **records,
    }
