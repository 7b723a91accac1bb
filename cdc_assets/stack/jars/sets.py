"""Which jars each component needs, as Maven coordinates; what is really fetched is in `jars.lock.toml`.

After a change here: `python -m cdc_assets.stack.jars.lock` resolves again and rewrites the lock.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class JarSet:
    """Coordinates `group:artifact:version`, with or without what they depend on."""

    coordinates: tuple[str, ...]
    transitive: bool = True
    # `group:artifact` prefixes that are left out: classes that the process has already, in another version.
    without: tuple[str, ...] = ()


KAFKA = "4.3.1"

SETS: dict[str, JarSet] = {
    # Brokers and Connect workers share one class path.
    "kafka": JarSet(
        (
            f"org.apache.kafka:kafka_2.13:{KAFKA}",
            f"org.apache.kafka:connect-runtime:{KAFKA}",
            f"org.apache.kafka:connect-mirror:{KAFKA}",
            f"org.apache.kafka:connect-json:{KAFKA}",
            # Kafka logs through slf4j 1.7 and leaves the binding to its distribution; without it there is no log.
            "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
        ),
    ),
    # A plugin folder: what the worker has itself must not be in it, or its classes meet themselves twice.
    "debezium-postgres": JarSet(
        ("io.debezium:debezium-connector-postgres:3.7.0.Final",),
        without=("org.apache.kafka:", "org.slf4j:", "org.lz4:", "at.yawk.lz4:", "org.xerial.snappy:", "com.github.luben:"),
    ),
    # Besides the jars in the pyspark wheel. Named one by one: transitively they would bring half of Hadoop again.
    "spark": JarSet(
        (
            "io.delta:delta-spark_4.0_2.13:4.4.0",
            "io.delta:delta-storage:4.4.0",
            "io.delta:delta-kernel-api:4.4.0",
            "io.delta:delta-kernel-defaults:4.4.0",
            "io.delta:delta-kernel-unitycatalog:4.4.0",
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.4",
            # The line of 4.0.4 lacks this one artifact on Central's mirrors; 4.0.0 has the same classes.
            "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
            "org.apache.spark:spark-avro_2.13:4.0.2",
            "org.apache.kafka:kafka-clients:3.9.1",
            "org.apache.commons:commons-pool2:2.12.0",
        ),
        transitive=False,
    ),
}
