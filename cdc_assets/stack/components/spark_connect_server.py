"""The Spark Connect server with Delta: one long-lived JVM for every job, warmed up before it counts as healthy.

Started without the spark-submit script, which insists on a module that the trimmed Java runtime lacks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from typing_extensions import override

from cdc_assets.stack.component import Component, as_child
from cdc_assets.stack.component_state import tail
from cdc_assets.stack.components.java_process import (
    SPARK,
    SPARK_CONF,
    jmx_address,
    jmx_options,
    jmx_ports,
    write_log4j,
    write_properties,
)
from cdc_assets.stack.components.spark_cluster import (
    MASTER,
    OPENS,
    WORKERS,
    driver_conf,
    lake_conf,
    master_url,
    spark_jars,
    store_variables,
)
from cdc_assets.stack.home import private_folder, read_json, write_private
from cdc_assets.stack.jars.locked_jars import pyspark_folder
from cdc_assets.stack.loopback import HOST, local_channel
from cdc_assets.stack.runtimes import java_command
from cdc_assets.stack.stack_errors import NotReadyError
from spark.errors import quantity

if TYPE_CHECKING:
    import grpc

# Tasks of Spark that were to end and go on: a task looks whether it is to end between two rows, never within a value.
#
# Spark's reaper writes a line about each into the log, every ten seconds until it has ended (Executor.TaskReaper, spark 4.0.4):
# https://spark.apache.org/docs/latest/configuration.html#execution-behavior (spark.task.reaper.*)
POLL_SECONDS = 10
REAPER: Mapping[str, str] = {
    "spark.task.reaper.enabled": "true",
    "spark.task.reaper.pollingInterval": f"{POLL_SECONDS}s",
    # The stack of each thread, at each look: a log of its own.
    "spark.task.reaper.threadDump": "false",
}
_LINE = re.compile(r"^(\S+) WARN +Executor: Killed task (\d+) is still running after (\d+) ms")
_LINES, _LEAST_SECONDS = 400, 60.0


def lingering_tasks(log: Path, now: float) -> dict[int, float]:
    """By the task's id, the seconds since it was told to end; of those that still run, told a minute ago or longer."""
    seconds_by_task = {}
    for line in tail(log, _LINES):
        if warning := _LINE.match(line):
            logged = datetime.strptime(warning[1], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc).timestamp()
            # What still runs is told at each look: a task of which nothing came at the last three has ended.
            if now - logged < 3 * POLL_SECONDS:
                seconds_by_task[int(warning[2])] = int(warning[3]) / 1000
    return {task: seconds for task, seconds in seconds_by_task.items() if seconds >= _LEAST_SECONDS}


NAME = "spark-connect"
TOKEN = "spark_token"
"""The private file whose text every call must bring along."""
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
"""Where Spark's server and PySpark's client look for it: on no command line, and in no setting that a session could ask for."""
_LEAST_HEAP_MB, _MOST_HEAP_MB, _SHARE_OF_MEMORY = 1536, 4096, 8
# Seconds for what takes 12 on two idle cores: a machine at load 30 takes 3 minutes.
_WARM_UP_TIMEOUT = 900
_NAMES = "cdc_assets.reading.spark_catalog"
# The second compiler for what is really hot: at ten times its usual thresholds a start takes a quarter less CPU, and a
# large load is still optimized (ADR 0012).
_LATE_OPTIMIZING = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
# After a full collection the heap is at most twice what lives in it: at rest a server keeps a quarter of what its largest job
# had taken.
_GIVES_BACK = ("-XX:MinHeapFreeRatio=15", "-XX:MaxHeapFreeRatio=50", "-XX:-ShrinkHeapInSteps")
# Jobs of one pool are first come, first served unless it says otherwise; all of ours are in the default one.
_POOLS = """<allocations><pool name="default"><schedulingMode>FAIR</schedulingMode></pool></allocations>
"""
_LOG_LEVELS = {"org.apache.spark.sql.delta": "warn", "io.delta": "warn"}


def heap_mb(memory: int) -> int:
    """The largest heap of the server on a machine of so many bytes: an eighth of it, as far as that is sensible.

    It is taken where a job needs it, and given back. With 1,536 MB a hundred tables at a time filled it: of 22 minutes full
    collections took 37 s, and 500 tables read by one query took ten minutes of them (ADR 100).
    """
    return min(max(memory // _SHARE_OF_MEMORY // 1024**2, _LEAST_HEAP_MB), _MOST_HEAP_MB)


class SparkConnect(Component):
    """Spark as a service on 127.0.0.1."""

    name = NAME
    start_timeout = 120

    @property
    def remote(self) -> str:
        """What a client connects to. By name: PySpark's own client would ask 127.0.0.1 for TLS, since there is a token."""
        return f"sc://localhost:{self.site.ports[self.name]}"

    @property
    @override
    def ports(self) -> tuple[str, ...]:
        return (self.name, *jmx_ports(self))

    @property
    @override
    def needs(self) -> tuple[str, ...]:
        return (MASTER, *WORKERS) if self.site.is_standalone else ()

    @property
    def _heap_mb(self) -> int:
        return heap_mb(psutil.virtual_memory().total)

    @property
    def _token(self) -> str:
        return self.site.home.private(TOKEN)

    @property
    def _pools(self) -> Path:
        return self.run / "pools.xml"

    @override
    def prepare(self) -> None:
        private_folder(self.run)
        # Shuffle files and artifacts of the last run; the lake is elsewhere.
        shutil.rmtree(self.run / "tmp", ignore_errors=True)
        private_folder(self.run / "tmp")
        private_folder(self.data)
        write_log4j(self.run / "log4j2.properties", root="warn", levels=_LOG_LEVELS)
        self._pools.write_text(_POOLS, encoding="utf-8")
        # For what must not stand on a command line.
        write_private(self.run / "spark.properties", "")
        conf = driver_conf(self.site.home, self.run / "log4j2.properties") if self.site.is_standalone else {}
        write_properties(self.run / "spark.properties", {**conf, **lake_conf(self.site, self.run / "tmp")})

    @override
    def command(self) -> list[str]:
        opens = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENS]
        options = [
            *opens,
            *jmx_options(self, SPARK),
            *_LATE_OPTIMIZING,
            *_GIVES_BACK,
            "-XX:+IgnoreUnrecognizedVMOptions",
            "-Djdk.reflect.useDirectMethodHandle=false",
            "-Dio.netty.tryReflectionSetAccessible=true",
            f"-Djava.io.tmpdir={self.run / 'tmp'}",
            f"-Dderby.system.home={self.data}",
            f"-Dlog4j2.configurationFile={self.run / 'log4j2.properties'}",
        ]
        java = java_command(
            "org.apache.spark.deploy.SparkSubmit",
            class_path=[*spark_jars(self.site), f"{pyspark_folder()}/*"],
            heap_mb=self._heap_mb,
            options=options,
            arguments_file=self.run / "java.args",
            optimize=True,
        )
        conf = [text for key, value in self._conf().items() for text in ("--conf", f"{key}={value}")]
        server = "org.apache.spark.sql.connect.service.SparkConnectServer"
        master = master_url(self.site) if self.site.is_standalone else "local[*]"
        where = ["--master", master, "--properties-file", str(self.run / "spark.properties")]
        return [*java, *where, *conf, "--class", server, "--name", "cdc_assets", "spark-internal"]

    def _conf(self) -> dict[str, str]:
        from spark import silver
        from spark.table.server_conf import server_conf

        return {
            **server_conf(),
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(self.site.ports[self.name]),
            # Of the driver's own ports: by a secret that it makes itself and tells nobody, or by that of the cluster.
            "spark.authenticate": "true",
            "spark.connect.grpc.maxInboundMessageSize": str(256 * 1024 * 1024),
            "spark.driver.bindAddress": HOST,
            "spark.driver.host": HOST,
            "spark.driver.memory": f"{self._heap_mb}m",
            # First come, first served by default: an append would wait until a comparison of all rows has had every slot.
            "spark.scheduler.mode": "FAIR",
            "spark.scheduler.allocation.file": self._pools.as_uri(),
            # Hadoop sets the modes of files by this, and not by the process's own mask.
            "spark.hadoop.fs.permissions.umask-mode": "077",
            # Half an hour by default: a full collection of an idle server takes 0.2 s.
            "spark.cleaner.periodicGC.interval": "5min",
            "spark.local.dir": str(self.run / "tmp"),
            "spark.sql.warehouse.dir": str(self.data / "warehouse"),
            "spark.sql.catalogImplementation": "in-memory",
            "spark.python.daemon.module": f"{silver.__name__}.worker_daemon",
            **REAPER,
            **self._of_executors(),
            **(SPARK_CONF if self.site.jmx else {}),
        }

    def _of_executors(self) -> dict[str, str]:
        if self.site.is_standalone:
            # An executor whose task does not end is ended by Spark itself; in one JVM that would be the server.
            own = {"spark.task.reaper.killTimeout": "120s"}
            return {**own, "spark.executor.extraClassPath": ":".join(map(str, spark_jars(self.site)))}
        # The one executor is in this process: silent for 120 s, the default, it was taken for lost, with all checkpoints.
        return {"spark.network.timeout": "1200s"}

    @override
    def environment(self) -> dict[str, str]:
        own = {TOKEN_VARIABLE: self._token, "SPARK_LOCAL_IP": HOST, "SPARK_SCALA_VERSION": "2.13"}
        # Tasks that run Python run ours, and find the package `spark` (spark.silver.worker_daemon).
        own |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        return {**super().environment(), **store_variables(self.site), **own}

    @override
    def probe(self) -> None:
        import grpc

        call = self._channel.unary_unary("/spark.connect.SparkConnectService/AnalyzePlan")
        try:
            login = (("authorization", f"Bearer {self._token}"),)
            call(_version_request(), timeout=self.answer_within, metadata=login)
        except grpc.RpcError as error:
            raise NotReadyError(f"{self.remote}: {error.code().name} {error.details()}") from error
        if tasks := lingering_tasks(self.log, time.time()):
            seconds = max(tasks.values())
            raise NotReadyError(
                f"{quantity(len(tasks), 'task')} whose end was asked for {seconds / 60:.0f} min ago still run, each within one "
                "value, and hold slots: cdc restart spark-connect"
            )

    @cached_property
    def _channel(self) -> grpc.Channel:
        return local_channel(self.address)

    def settle(self) -> None:
        """A MERGE into a throw-away table: proves Delta, and pays for class loading before the first run needs it."""
        folder = self.run / "tmp" / "warm-up"
        shutil.rmtree(folder, ignore_errors=True)
        command = [sys.executable, "-m", "cdc_assets.stack.components.spark_warm_up", self.remote, str(folder)]
        self._in_process(command, self.environment(), "a MERGE into a new table")

    @override
    def recall(self) -> None:
        """The names in its catalog that `cdc sql --register` has made: the catalog is in its memory."""
        if not self.site.home.spark_names.exists():
            return
        # As Dagster has it: the registry may refer to any variable, and the embedded store's keys are not the user's own.
        of_stack = read_json(self.site.home.stack).get("environment", {})
        environment = {**os.environ, **of_stack, "CDC_HOME": str(self.site.home.root)}
        self._in_process([sys.executable, "-m", _NAMES], environment, "making the names in Spark's catalog (cdc sql --register)")

    def _in_process(self, command: list[str], environment: Mapping[str, str], what: str) -> None:
        own = {**environment, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        result = subprocess.run(as_child(command), env=own, capture_output=True, text=True, timeout=_WARM_UP_TIMEOUT, check=False)
        if result.returncode:
            raise NotReadyError(f"{what} failed: " + (result.stderr.strip().splitlines() or ["no reason"])[-1])

    @property
    @override
    def addresses(self) -> Mapping[str, str]:
        return {"CDC_SPARK_REMOTE": self.remote, **jmx_address(self)}

    @property
    @override
    def keys(self) -> Mapping[str, Path]:
        return {self.remote: self.site.home.private_file(TOKEN)}


_SESSION = str(uuid.uuid4())


def _version_request() -> bytes:
    # AnalyzePlanRequest(session_id, user_context.user_id="cdc_assets", spark_version) in wire format. Written out, because
    # importing the generated classes pulls in all of pyspark, pandas and pyarrow: 150 MB in a process that only asks "are you
    # there".
    user = b"\x0a\x0acdc_assets"
    return b"\x0a" + bytes([len(_SESSION)]) + _SESSION.encode() + b"\x12" + bytes([len(user)]) + user + b"\x52\x00"
