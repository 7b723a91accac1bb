"""Files that the Java components read: properties, and a log4j2 configuration that writes to stdout (the supervisor's log)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cdc_assets.stack.home import write_private

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
