"""What a Spark server has of what the jobs need: its versions, its jars, its executors and their Python.

Asked through Spark itself, since a server of somebody else's offers nothing more: Java's static methods by `java_method`, where
its tasks run, and Python's packages by a function in its tasks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException

from spark.table.spark_failures import SPARK_FAILURES
from spark.table.spark_session import SparkCluster, cluster_of, settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSION, CATALOG = "io.delta.sql.DeltaSparkSessionExtension", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
DELTA, KAFKA = "delta-spark", "spark-sql-kafka-0-10"
PACKAGES: Mapping[str, str] = {"pyarrow": "24", "deltalake": "1.6.6", "confluent-kafka": "2.11"}
"""What small work imports in tasks, each with the oldest version that it works with."""
SETTINGS = ("spark.sql.extensions", "spark.sql.catalog.spark_catalog", "spark.connect.session.manager.defaultSessionTimeout")
_JARS = {DELTA: ("io.delta.package", "VERSION"), "kafka-clients": ("org.apache.kafka.common.utils.AppInfoParser", "getVersion")}
_EXECUTOR = "java_method('java.net.InetAddress', 'getLocalHost') host, java_method('java.lang.ProcessHandle', 'current') pid"
_MOST_TASKS = 64
_FRESH_SECONDS = 600.0
_OF_CLUSTER: dict[str, tuple[float, str]] = {}


@dataclass(frozen=True)
class ExecutorFacts:
    """A process that runs tasks."""

    host: str
    pid: str


@dataclass(frozen=True)
class SparkFacts:
    """As found. `jars` is {jar: version}, empty for one that is not there; `python` what keeps executors from small work."""

    cluster: SparkCluster
    spark: str
    settings: Mapping[str, str]
    jars: Mapping[str, str]
    executors: Sequence[ExecutorFacts] = field(default_factory=tuple)
    python: str = ""


def look_at_driver(session: SparkSession) -> SparkFacts:
    """What the driver tells, without a job: a tenth of a second."""
    settings = settings_of(session, SETTINGS)
    jars = {name: "found" if _is_known(session, *method) else "" for name, method in _JARS.items()}
    jars[KAFKA] = "found" if _has_kafka(session) else ""
    return SparkFacts(cluster_of(session), session.version, settings, jars)


def look_at_server(session: SparkSession) -> SparkFacts:
    """What driver and executors tell, by two small jobs."""
    driver = look_at_driver(session)
    classes = {name: method for name, method in _JARS.items() if driver.jars[name]}
    expressions = ", ".join([_EXECUTOR, *(f"{_java_call(*method)} AS `{name}`" for name, method in classes.items())])
    tasks = min(_MOST_TASKS, max(2, 4 * driver.cluster.slots))
    rows = session.sql(f"SELECT DISTINCT {expressions} FROM range(0, {tasks}, 1, {tasks})").collect()
    versions = {name: ", ".join(sorted({row[name] for row in rows})) for name in classes}
    executors = sorted({(row.host, row.pid) for row in rows})
    return SparkFacts(
        driver.cluster,
        driver.spark,
        driver.settings,
        {**driver.jars, **versions},
        tuple(ExecutorFacts(host, pid) for host, pid in executors),
        python_lack(session),
    )


def small_work_lack(session: SparkSession) -> str:
    """As `python_lack` of a cluster's executors, asked once in ten minutes. One JVM says by itself what it lacks."""
    cluster = cluster_of(session)
    if cluster.is_one_jvm:
        return ""
    when, lack = _OF_CLUSTER.get(cluster.master, (0.0, None))
    if lack is None or time.monotonic() - when > _FRESH_SECONDS:
        lack = python_lack(session)
        _OF_CLUSTER[cluster.master] = time.monotonic(), lack
    return lack


def python_lack(session: SparkSession) -> str:
    """Why the executors cannot do small work in Python; empty where they can."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StringType

    tasks = min(_MOST_TASKS, max(2, 2 * cluster_of(session).slots))
    # Of "string" PySpark would ask the thread's active session, which may be one that has ended.
    report = sf.udf(_reporter(sorted(PACKAGES)), StringType())
    try:
        rows = session.range(0, tasks, 1, tasks).select(report(sf.col("id")).alias("told")).distinct().collect()
    except SPARK_FAILURES as error:
        return f"no Python of the client's version runs there: {_reason(error)}"
    lacks = sorted({lack for row in rows for lack in _lacks(json.loads(row.told))})
    return "; ".join(lacks)


def is_older(version: str, oldest: str) -> bool:
    """Whether `1.6.5` is older than `1.6.6`; what is no number counts as zero."""

    def numbers(text: str) -> list[int]:
        return [int(number) if number.isdecimal() else 0 for number in text.split(".")]

    return numbers(version) < numbers(oldest)


def _lacks(report: Mapping[str, Any]) -> Iterator[str]:
    host = report["host"]
    for name, oldest in PACKAGES.items():
        version = report["packages"][name]
        if not version:
            yield f"{host}: {name} is not installed"
        elif is_older(version, oldest):
            yield f"{host}: {name} {version} is older than {oldest}"
    if report["own"]:
        yield f"{host}: the package `spark` of cdc_assets cannot be imported: {report['own']}"


def _reporter(packages: Sequence[str]) -> Any:
    """A function within a function goes to the tasks by its code: what it is to tell of may be missing there."""

    def tell(_: int) -> str:
        import importlib
        import importlib.metadata
        import json
        import platform

        versions = {}
        for name in packages:
            try:
                versions[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                versions[name] = ""
        own = ""
        try:
            importlib.import_module("spark.specs")
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            own = f"{type(error).__name__}: {error}"
        return json.dumps({"host": platform.node(), "packages": versions, "own": own})

    return tell


def _java_call(name: str, method: str) -> str:
    return f"java_method('{name}', '{method}')"


def _is_known(session: SparkSession, name: str, method: str) -> bool:
    """Spark looks for the class while it reads the statement."""
    try:
        return bool(session.sql(f"SELECT {_java_call(name, method)} AS v").columns)
    except AnalysisException:
        return False


def _has_kafka(session: SparkSession) -> bool:
    reader = session.read.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:9").option("subscribe", "none")
    try:
        return bool(reader.load().columns)
    except AnalysisException:
        return False


def _reason(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:400]
