"""What the Java components have in common: the files that they read, and a JVM's own figures for Prometheus.

Files are properties, and a log4j2 configuration that writes to stdout (the supervisor's log). Where `CDC_JMX=on` asks for
figures, an agent within the process serves them on a port of 127.0.0.1. It asks for no login, as `cdc metrics` asks for none:
there are names, counts and times, no rows and no secrets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cdc_assets.registry import settings
from cdc_assets.stack.component import Component
from cdc_assets.stack.home import write_private
from cdc_assets.stack.loopback import HOST

_LOG4J = """\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{yyyy-MM-dd'T'HH:mm:ss.SSSX}}{{UTC}} %-5p %c{{1}}: %m%n
rootLogger.level = {root}
rootLogger.appenderRef.console.ref = console
"""
# Whole configurations at INFO, on every start: some of them hold what a connector was given.
QUIET = {
    "org.apache.kafka.common.config.AbstractConfig": "warn",
    "org.apache.kafka.connect.runtime.WorkerConfig": "error",
    "org.apache.kafka.clients": "warn",
    "org.apache.kafka.common.utils.AppInfoParser": "warn",
    "org.apache.kafka.common.metrics": "warn",
    "org.glassfish.jersey": "error",
}


def write_properties(file: Path, properties: Mapping[str, str]) -> None:
    """A Java properties file, which only this user may read: some hold a login."""
    lines = [f"{key}={value}".replace("\\", "\\\\") for key, value in properties.items()]
    write_private(file, "\n".join(lines) + "\n", durable=False)


def write_log4j(file: Path, *, root: str = "info", levels: Mapping[str, str] = QUIET) -> None:
    """Everything to stdout at `root`, except for the loggers named."""
    lines = [_LOG4J.format(root=root)]
    for number, (logger, level) in enumerate(levels.items()):
        lines += [f"logger.l{number}.name = {logger}", f"logger.l{number}.level = {level}"]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


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
