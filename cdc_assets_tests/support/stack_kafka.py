"""Clients of a stack's Kafka, as a person makes them of what `cdc env` gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark.events.kafka_login import KafkaLogin, librdkafka, read_login


def login_of(environment: Mapping[str, str], cluster: str) -> KafkaLogin:
    return read_login(environment[f"CDC_{cluster.upper()}_LOGIN"])


def kafka_settings(environment: Mapping[str, str], cluster: str) -> dict[str, Any]:
    """librdkafka's, of the cluster `core` or `lake`."""
    servers = {"bootstrap.servers": environment[f"CDC_{cluster.upper()}_BOOTSTRAP"]}
    return {**servers, **librdkafka(login_of(environment, cluster))}
