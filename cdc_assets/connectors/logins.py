"""Logins of Kafka clients that a connector makes by itself: Debezium's schema history, MirrorMaker's of both clusters.

The worker's own login does not reach them. Their configs can be read by everybody who reaches Connect, so they hold references
to the client.properties that our own clients use (CDC_CORE_LOGIN, CDC_LAKE_LOGIN), which the worker resolves from its own file
at that path: the keys are those of our file, the user may be another one.
"""

from __future__ import annotations

from cdc_assets import settings
from cdc_assets.errors import KafkaError
from spark.errors import KafkaLoginError
from spark.kafka.login import read_login


def login(cluster: str, *prefixes: str) -> dict[str, str]:
    """Of clients on the cluster of that name; nothing where it asks for no login.

    Raises:
        KafkaError: the file cannot be used.
    """
    path = settings.login(cluster)
    if not path:
        return {}
    try:
        return read_login(path).references(*prefixes)
    except KafkaLoginError as error:
        raise KafkaError(f"{settings.variable(cluster, 'LOGIN')}: {error}; then ./cdc diff") from None
