"""A JVM's own figures for Prometheus, where `CDC_JMX=on` asks for them: an agent within the process, on a port of 127.0.0.1.

It asks for no login, as `cdc metrics` asks for none: there are names, counts and times, no rows and no secrets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cdc_assets import settings
from cdc_assets.stack.components.base import Component
from cdc_assets.stack.ports import HOST

BROKER = (
    *("kafka.server:type=BrokerTopicMetrics,*", "kafka.server:type=ReplicaManager,*", "kafka.controller:type=KafkaController,*"),
    # Of all requests they would be a thousand figures.
    *(
        f"kafka.network:type=RequestMetrics,name=TotalTimeMs,request={name}"
        for name in ("Produce", "FetchConsumer", "FetchFollower")
    ),
    "kafka.server:type=KafkaRequestHandlerPool,*",
)
_RULES = (
    # Kafka's names have quotes within them, which Prometheus would show.
    (
        'kafka.connect<type=([^,]+), connector="?([^,"]+)"?, task="?([^,"]+)"?><>(.+): ',
        "kafka_connect_$1_$4",
        ("connector", "task"),
    ),
    ('kafka.connect<type=([^,]+), connector="?([^,"]+)"?><>(.+): ', "kafka_connect_$1_$3", ("connector",)),
    ('kafka.connect<type=([^,]+), client-id="?([^,"]+)"?><>(.+): ', "kafka_connect_$1_$3", ("client_id",)),
)
CONNECT = (
    *("kafka.connect:*", "kafka.connect.mirror:*"),
    *(f"debezium.{server}:*" for server in ("postgres", "mariadb_connector", "mysql", "sql_server", "oracle", "mongodb")),
)
SPARK = ("metrics:*",)
"""What Spark's JmxSink registers."""
SPARK_CONF = {
    "spark.metrics.conf.*.sink.jmx.class": "org.apache.spark.metrics.sink.JmxSink",
    "spark.metrics.conf.*.source.jvm.class": "org.apache.spark.metrics.source.JvmSource",
    # By default a figure's name has the id of the application, which is another one after each start.
    "spark.metrics.namespace": "spark",
}


def jmx_ports(component: Component) -> tuple[str, ...]:
    """The name of its port, where there is one."""
    return (f"{component.name}-jmx",) if component.site.jmx else ()


def jmx_options(component: Component, beans: Sequence[str]) -> list[str]:
    """Options of Java that load the agent; none where nobody asked for it. Writes the agent's configuration."""
    if not component.site.jmx:
        return []
    (agent,) = component.site.jars("jmx")
    (port,) = jmx_ports(component)
    file = component.run / "jmx.json"
    # JSON is YAML.
    file.write_text(json.dumps(_configuration(beans)), encoding="utf-8")
    return [f"-javaagent:{agent}={HOST}:{component.site.ports[port]}:{file}"]


def _configuration(beans: Sequence[str]) -> dict[str, Any]:
    named = [
        {"pattern": pattern, "name": name, "labels": {label: f"${at}" for at, label in enumerate(labels, 2)}}
        for pattern, name, labels in _RULES
    ]
    return {"includeObjectNames": [*beans], "rules": [*named, {"pattern": ".*"}]}


def jmx_address(component: Component) -> Mapping[str, str]:
    """What `stack.json` tells of it, for `cdc render --target prometheus`."""
    if not component.site.jmx:
        return {}
    return {f"{settings.JMX}_{component.name.upper().replace('-', '_')}": component.site.address(f"{component.name}-jmx")}
