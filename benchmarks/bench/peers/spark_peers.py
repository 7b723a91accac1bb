"""Peers on a Spark of their own, with the heap and the Java options of the product's server: Iceberg's MERGE and foreachBatch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import psutil
from typing_extensions import override

from benchmarks.bench.errors import BenchError
from benchmarks.bench.idle_cost import cpu_seconds
from benchmarks.bench.peers.peer import NewRecords, Peer, PeerTable
from benchmarks.bench.peers.spark_driver import CATALOG
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.stack.components.spark_cluster import OF_CONNECT, submit_environment
from cdc_assets.stack.home import Home
from cdc_assets.stack.jars.jar_sets import ICEBERG
from cdc_assets.stack.jars.locked_jars import cache_folder, download, missing, read_lock, repository
from cdc_assets.stack.loopback import HOST

_ENDS_WITHIN = 30.0


class SparkDriver:
    """The process, and the Java that it starts; both sides of it write below `folder`."""

    def __init__(self, home: Home, folder: Path, server: int) -> None:
        self._log = folder / "spark.log"
        folder.mkdir(parents=True)
        command = [sys.executable, "-m", "benchmarks.bench.peers.spark_driver", str(folder / "delta")]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=_environment(home, folder, server),
            )
        self._answer()

    def call(self, call: str, **arguments: Any) -> Any:
        """One request, and what is answered.

        Raises:
            BenchError: with the reason.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"call": call, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            lines = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise BenchError(f"the peers' Spark ended with {self._process.wait()}: {' '.join(lines[-5:]) or 'it wrote nothing'}")
        answer = json.loads(line)
        if "error" in answer:
            raise BenchError(f"the peers' Spark: {answer['error']}")
        return answer["result"]

    def cpu(self) -> float:
        """CPU seconds of both sides so far."""
        return cpu_seconds(self._process.pid)

    def close(self) -> None:
        """It ends by itself when its stdin does; when it does not, it is ended."""
        if self._process.stdin:
            self._process.stdin.close()
        try:
            self._process.wait(_ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            for child in psutil.Process(self._process.pid).children(recursive=True):
                child.kill()
            self._process.kill()
            self._process.wait()


def fetch_jars() -> list[Path]:
    """Spark's own beside the wheel, and Iceberg's, which nobody else needs: fetched at the first call."""
    locked = read_lock()
    jars = locked.jars(["spark", "iceberg"])
    if missing(jars, cache_folder()):
        download(jars, cache_folder(), repository=repository(locked.repository))
    return [cache_folder() / jar.path for jar in jars]


def _environment(home: Home, folder: Path, server: int) -> dict[str, str]:
    """Variables of a PySpark that starts its own Java, as a script does."""
    kept = {name: value for name, value in os.environ.items() if name not in OF_CONNECT}
    submit = {"PYSPARK_SUBMIT_ARGS": subprocess.list2cmdline(_submit_arguments(folder, java_options(server)))}
    modules = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return {**kept, **submit_environment(home, []), **modules, **submit}


def java_options(pid: int) -> list[str]:
    """Heap, collector and compilers of a running Java, by its command line."""
    return [word for word in psutil.Process(pid).cmdline() if word.startswith("-X")]


def _submit_arguments(folder: Path, java: Sequence[str]) -> list[str]:
    heap = next((word.removeprefix("-Xmx") for word in java if word.startswith("-Xmx")), "1g")
    others = [word for word in java if not word.startswith(("-Xmx", "-Xms"))]
    conf = {
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,io.delta.sql.DeltaSparkSessionExtension"
        ),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        f"spark.sql.catalog.{CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
        f"spark.sql.catalog.{CATALOG}.type": "hadoop",
        f"spark.sql.catalog.{CATALOG}.warehouse": str(folder / "iceberg"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": HOST,
        "spark.driver.host": HOST,
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.local.dir": str(folder / "tmp"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
    }
    options = ["--master", "local[*]", "--driver-memory", heap]
    # As classes of Java's own path, like the product's server has them: `--jars` would copy and serve them.
    options += ["--driver-class-path", ":".join(map(str, fetch_jars()))]
    options += ["--driver-java-options", " ".join([*others, f"-Dderby.system.home={folder}"])]
    for key, value in conf.items():
        options += ["--conf", f"{key}={value}"]
    return [*options, "pyspark-shell"]


class _SparkPeer(Peer):
    call: ClassVar[str]

    def __init__(self, kafka: KafkaCluster, driver: SparkDriver) -> None:
        super().__init__(kafka)
        self.driver = driver

    @override
    def merge(self, wanted: Sequence[NewRecords]) -> None:
        tables = [{"name": r.table.name, "topic": r.table.topic, "read": self.read_options(r)} for r in wanted]
        self.driver.call(self.call, tables=tables)

    def read_options(self, records: NewRecords) -> dict[str, str]:
        """What Spark's Kafka source is told: exactly the records, by the options that this product reads with."""
        from spark.events.kafka_source import read_options
        from spark.specs import BronzeSpec, TopicRange

        topic = TopicRange(records.table.name, records.table.topic, records.topic_id, 0, dict(records.ranges))
        options = read_options(BronzeSpec("", self.kafka.bootstrap, (topic,), "", login=self.kafka.login), [topic])
        return {key: value for key, value in options.items() if key != "includeHeaders"}

    @override
    def totals(self, table: PeerTable) -> tuple[int, int]:
        rows, total = self.driver.call("totals", of=self.call, name=table.name)
        return rows, total

    @override
    def cpu(self) -> float:
        return self.driver.cpu() + super().cpu()


class IcebergMerge(_SparkPeer):
    """The records by a batch read, the newest of each key, MERGE; of several tables three at a time."""

    name = f"Iceberg {ICEBERG} MERGE"
    call = "iceberg"


class ForeachBatch(_SparkPeer):
    """Structured Streaming with availableNow, and the DeltaTable API in foreachBatch: all by defaults, as tutorials show."""

    name = "foreachBatch, defaults"
    call = "foreach-batch"
    at_most = (1, 500_000)

    @override
    def read_options(self, records: NewRecords) -> dict[str, str]:
        from spark.events.kafka_login import read_login

        login = read_login(self.kafka.login).spark_options() if self.kafka.login else {}
        own = {"kafka.bootstrap.servers": self.kafka.bootstrap, "subscribe": records.table.topic}
        return {**own, "startingOffsets": "earliest", **login}
