"""Which jars each component needs, as Maven coordinates, and how they are resolved into `jars.lock.toml`.

After a change here: `python -m cdc_assets.stack.jars.jar_sets` resolves again with jgo's pure-Python Maven resolver (a dev
dependency) and rewrites the lock. It downloads every jar once, to hash it. The licence is the POM's, or that of the nearest
parent that has any (https://maven.apache.org/pom.html#inheritance).
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from cdc_assets.stack.jars.locked_jars import LOCK, Jar, JarLock, read_lock, repository, write_lock
from spark.errors import quantity

if TYPE_CHECKING:
    from jgo.maven import MavenContext
    from jgo.parse import Coordinate


@dataclass(frozen=True)
class JarSet:
    """Coordinates `group:artifact:version`, with or without what they depend on."""

    coordinates: tuple[str, ...]
    transitive: bool = True
    # Prefixes of `group:artifact:` that are left out: classes that the process has already, or never calls.
    without: tuple[str, ...] = ()


KAFKA = "4.3.1"
APICURIO = "2.6.13.Final"
ICEBERG = "1.11.0"
# Central's mirrors lack 1.1.0 and newer.
JMX_AGENT = "1.0.1"
_WORKERS_OWN = ("org.apache.kafka:", "org.slf4j:", "org.lz4:", "at.yawk.lz4:", "org.xerial.snappy:", "com.github.luben:")
# The tests ask each whether our config for it is valid. `up` fetches those of declared kinds without a vendor's driver.
# Central's mirrors lack these four of 3.7.0.
TEST_PLUGINS = {
    "mysql": JarSet(("io.debezium:debezium-connector-mysql:3.6.1.Final",), without=_WORKERS_OWN),
    "sqlserver": JarSet(("io.debezium:debezium-connector-sqlserver:3.6.1.Final",), without=_WORKERS_OWN),
    "oracle": JarSet(
        # Debezium ships no driver for Oracle.
        ("io.debezium:debezium-connector-oracle:3.6.1.Final", "com.oracle.database.jdbc:ojdbc11:21.15.0.0"),
        # Buffers outside the heap, which we do not use.
        without=(*_WORKERS_OWN, "org.infinispan", "org.ehcache:", "org.jvnet.staxex:", "com.oracle.database.xml:"),
    ),
    "mongodb": JarSet(("io.debezium:debezium-connector-mongodb:3.6.1.Final",), without=_WORKERS_OWN),
}

AWS = "2.57.8"
_UNUSED_OF_AWS = (
    *("apache5-client", "arns", "auth:", "aws-query-protocol", "aws-xml-protocol", "crt-core", "http-auth", "json-utils"),
    *("netty-nio-client", "profiles", "protocol-core", "regions", "retries", "sts", "third-party-jackson-core"),
)

SETS: dict[str, JarSet] = {
    # Brokers and Connect workers share one class path.
    "kafka": JarSet(
        (
            f"org.apache.kafka:kafka_2.13:{KAFKA}",
            f"org.apache.kafka:connect-runtime:{KAFKA}",
            f"org.apache.kafka:connect-mirror:{KAFKA}",
            f"org.apache.kafka:connect-json:{KAFKA}",
            # A login for the REST interface of the workers.
            f"org.apache.kafka:connect-basic-auth-extension:{KAFKA}",
            # Kafka logs through slf4j 1.7 and leaves the binding to its distribution; without it there is no log.
            "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
            # Byte for byte those in the pyspark wheel, where Kafka would have the next release of the same zstd 1.5.6, and a
            # Scala 2.13 that is compatible in both directions with every other 2.13.
            "com.github.luben:zstd-jni:1.5.6-9",
            "org.scala-lang:scala-library:2.13.16",
        ),
        # For macros at compile time; for XML rules of commons-validator, of which Kafka calls two plain classes.
        without=("org.scala-lang:scala-reflect:", "commons-beanutils:", "commons-collections:", "commons-digester:"),
    ),
    # Plugin folders: what the worker has itself must not be in one, or its classes meet themselves twice.
    "debezium-postgres": JarSet(("io.debezium:debezium-connector-postgres:3.7.0.Final",), without=_WORKERS_OWN),
    **{f"debezium-{kind}": plugin for kind, plugin in TEST_PLUGINS.items()},
    # Central's mirrors lack it from 3.5.1 to 3.7.0.
    "debezium-mariadb": JarSet(("io.debezium:debezium-connector-mariadb:3.5.0.Final",), without=_WORKERS_OWN),
    # For the tests: Strimzi's own generator makes the CRDs from its own classes, and these the schemas of what we render.
    "strimzi": JarSet(("io.strimzi:crd-generator:1.2.0", "io.strimzi:api:1.2.0"), transitive=False),
    # For the tests: a schema registry.
    "apicurio": JarSet((f"io.apicurio:apicurio-registry-app:tar.gz:all:{APICURIO}",), transitive=False),
    # For connectors that write Avro (stack.own_converters), fetched when a source declares it.
    "apicurio-converter": JarSet((f"io.apicurio:apicurio-registry-utils-converter:{APICURIO}",), without=_WORKERS_OWN),
    # An agent that serves a JVM's own figures to Prometheus, where `CDC_JMX=on` asks for it; it has what it needs within itself.
    "jmx": JarSet((f"io.prometheus.jmx:jmx_prometheus_javaagent:{JMX_AGENT}",), transitive=False),
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
            # Not the brokers' 4.x: Spark 4.0 calls DescribeTopicsResult.all(), which went with Kafka 4.0.
            "org.apache.kafka:kafka-clients:3.9.2",
            # Before the lz4-java 1.8.0 of the pyspark wheel, whose classes it has: docs/reference/vulnerabilities.md.
            "at.yawk.lz4:lz4-java:1.10.2",
            "org.apache.commons:commons-pool2:2.12.0",
        ),
        transitive=False,
    ),
    # For a lake on s3a:// alone. Modules of AWS's client in place of its bundle, which has all services: 558 MB.
    "spark-s3": JarSet(
        (
            # Of the Hadoop in the pyspark wheel: another release calls methods that it lacks.
            "org.apache.hadoop:hadoop-aws:3.4.1",
            *(f"software.amazon.awssdk:{name}:{AWS}" for name in ("s3", "s3-transfer-manager", "sts", "apache-client")),
            f"software.amazon.awssdk:netty-nio-client:{AWS}",
        ),
        without=(
            "software.amazon.awssdk:bundle:",
            "software.amazon.awssdk:apache5-client:",
            # The pyspark wheel has them.
            *("io.netty:", "org.slf4j:", "commons-codec:", "commons-logging:", "org.apache.httpcomponents:"),
        ),
    ),
    # For a lake on gs:// alone. With all that it calls inside, under names of its own.
    "spark-gcs": JarSet(("com.google.cloud.bigdataoss:gcs-connector:jar:shaded:3.1.18",), transitive=False),
    # For `cdc bench --peers` alone, which fetches it when it is asked for.
    "iceberg": JarSet((f"org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:{ICEBERG}",), transitive=False),
    # Without the other clouds' clients, and of AWS's only what its classes name: it serves from the local disk here. Its jar
    # has Jetty inside.
    "s3proxy": JarSet(
        (
            "org.gaul:s3proxy:4.1.0",
            # Byte for byte the one in the pyspark wheel.
            "com.google.guava:guava:33.4.0-jre",
            # What it brings is too old for the jackson 3 that it brings as well.
            "com.fasterxml.jackson.core:jackson-annotations:2.22",
        ),
        without=(
            "com.azure:",
            "com.fasterxml.jackson.core:jackson-core:",
            "com.fasterxml.jackson.core:jackson-databind:",
            "com.fasterxml.jackson.dataformat:",
            "com.fasterxml.jackson.datatype:",
            "com.github.java-json-tools:btf:",
            "com.github.java-json-tools:jackson-coreutils:",
            "com.github.java-json-tools:json-patch:",
            "com.github.java-json-tools:msg-simple:",
            "com.github.fge:",
            "com.github.openstack4j",
            "com.google.android:",
            "com.google.api",
            "com.google.apis:",
            "com.google.auth:",
            "com.google.cloud",
            "com.google.code.gson:",
            "com.google.http-client:",
            "com.google.jimfs:",
            "com.google.oauth-client:",
            "com.google.protobuf:",
            "com.google.re2j:",
            "com.microsoft.azure:",
            "com.squareup.okhttp3:",
            "com.squareup.okio:",
            "io.grpc:",
            "io.netty:",
            "io.opencensus:",
            "io.opentelemetry",
            "io.prometheus:",
            "io.projectreactor",
            "net.java.dev.jna:",
            "org.apache.httpcomponents:httpclient:",
            "org.apache.httpcomponents:httpcore:",
            "org.apache.sshd:",
            "org.checkerframework:",
            "org.eclipse.jetty",
            "org.openstack4j",
            "org.threeten:",
            "org.yaml:",
            *(f"software.amazon.awssdk:{unused}" for unused in _UNUSED_OF_AWS),
        ),
    ),
}


NONE = "none declared"
Fetch = Callable[[PurePosixPath], str]
_GENERATIONS = 12


def licence_of(gav: str, fetch: Fetch) -> str:
    """The names of the declared licences, joined by " | ": of the POM, or of its nearest parent that has any, as a whole.

    Args:
        gav: `group:artifact:version`, with or without packaging and classifier before the version.
        fetch: the text of a file of the repository.
    """
    for _ in range(_GENERATIONS):
        group, artifact, *_, version = gav.split(":")
        text = fetch(PurePosixPath(*group.split("."), artifact, version, f"{artifact}-{version}.pom"))
        pom = ElementTree.fromstring(re.sub(r"""\sxmlns=(["'])[^"']+\1""", "", text, count=1))
        names = [" ".join((node.text or "").split()) for node in pom.findall("licenses/license/name")]
        if names:
            return " | ".join(sorted(set(names)))
        parent = pom.find("parent")
        if parent is None:
            return NONE
        gav = ":".join((parent.findtext(field) or "").strip() for field in ("groupId", "artifactId", "version"))
    return NONE


def resolve(jar_set: JarSet, context: MavenContext, pom: Fetch) -> list[Jar]:
    """The files of one set, hashed, with the licence that each declares."""
    dependencies = [context.create_dependency(_parse(coordinate)) for coordinate in jar_set.coordinates]
    inputs, transitive = context.resolver.resolve(dependencies) if jar_set.transitive else (dependencies, [])
    jars = {}
    for dependency in [*inputs, *transitive]:
        packed = f"{dependency.type}:{dependency.classifier}:" if dependency.classifier else ""
        gav = f"{dependency.groupId}:{dependency.artifactId}:{packed}{dependency.version}"
        named = f"{dependency.groupId}:{dependency.artifactId}:"
        scope_left_out = dependency.scope in ("provided", "system", "test") or dependency.optional
        is_jar = dependency.type == "jar" and not dependency.classifier
        if not (is_jar or dependency in inputs) or scope_left_out or any(named.startswith(p) for p in jar_set.without):
            continue
        content = Path(dependency.artifact.resolve()).read_bytes()
        jars[gav] = Jar(gav, hashlib.sha256(content).hexdigest(), len(content), licence_of(gav, pom))
    return list(jars.values())


def _parse(text: str) -> Coordinate:
    from jgo.parse import Coordinate

    group, artifact, *other, version = text.split(":")
    packaging, classifier = other or (None, None)
    # Raw: otherwise each coordinate's own dependencyManagement would rule the versions of all others.
    return Coordinate(group, artifact, version=version, packaging=packaging, classifier=classifier, raw=True)


def main() -> None:
    """Resolve every set and write the lock."""
    import httpx
    import truststore

    truststore.inject_into_ssl()
    from jgo.maven import MavenContext

    base = read_lock().repository if LOCK.exists() else sys.argv[1]
    context = MavenContext(remote_repos={"central": base}, timeout=60)
    client = httpx.Client(timeout=60, follow_redirects=True)

    def pom(path: PurePosixPath) -> str:
        return client.get(f"{repository(base).rstrip('/')}/{path}").raise_for_status().text

    sets = {}
    for name, jar_set in SETS.items():
        jars = resolve(jar_set, context, pom)
        sets[name] = tuple(jars)
        print(f"{name}: {quantity(len(jars), 'jar')}, {sum(j.size for j in jars) / 1e6:.1f} MB")
    write_lock(JarLock(base, sets))


if __name__ == "__main__":
    main()
