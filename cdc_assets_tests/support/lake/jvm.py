"""Java processes of the Spark tier: a Spark Connect server and a Kafka broker, from the locked jars, on free ports."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from cdc_assets.stack.component import as_child
from cdc_assets.stack.components.java_process import write_log4j
from cdc_assets.stack.jars.locked_jars import cache_folder, download, read_lock, repository
from cdc_assets.stack.loopback import assign
from cdc_assets.stack.runtimes import java_command

_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)
OPTIONS = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]


def locked_jars(name: str) -> list[Path]:
    lock = read_lock()
    jars = lock.jars([name])
    download(jars, cache_folder(), repository=repository(lock.repository))
    return [cache_folder() / jar.path for jar in jars]


def spark_class_path(*more: str) -> list[str]:
    """The jars of Spark, and of `more` sets."""
    import pyspark

    return [
        *(str(jar) for name in ("spark", *more) for jar in locked_jars(name)),
        str(Path(pyspark.__file__).parent / "jars" / "*"),
    ]


def free_port() -> int:
    """One that no client's connection and no other process of the tests takes before the server listens."""
    return assign(["test"], {}, environment={})["test"]


def until(condition: Callable[[], bool], *, process: subprocess.Popen[bytes], log: Path, seconds: float = 240) -> None:
    """Wait for a condition; a process that ended meanwhile is reported with the end of its log."""
    deadline = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"{process.args}: not ready\n{log.read_text()[-3000:]}")
        time.sleep(0.05)


@contextmanager
def running(command: Sequence[str], *, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Not even a killed test run leaves it behind; and no Python of ours runs between fork and exec, where gRPC's may abort."""
    with log.open("ab") as output:
        # The tasks run Python as the tests do.
        python = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        process = subprocess.Popen(as_child([*command]), stdout=output, stderr=output, env={**os.environ, **python})
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@contextmanager
def spark_connect(
    folder: Path,
    *,
    optimize: bool = False,
    shared: bool = False,
    master: str = "local[2]",
    conf: Mapping[str, str] = MappingProxyType({}),
    jars: Sequence[str] = (),
) -> Iterator[tuple[str, Callable[[], None]]]:
    """A Spark Connect server with Delta: its `sc://` address, and what kills it. `optimize`: as the product starts it.

    Else what the tests ask themselves is interpreted too, and Java's second compiler is off: few rows, a thousand plans.
    `shared`: by all parts of a run, so that it lives long enough for the second compiler.
    The executors of a `master` elsewhere find the jars where they are here. `jars` are more sets of them.
    """
    from spark.table.server_conf import server_conf
    from spark.table.spark_plans import INTERPRETED

    folder.mkdir(parents=True, exist_ok=True)
    port, log = free_port(), folder / "spark.log"
    write_log4j(folder / "log4j2.properties", root="warn")
    all_of_it = {
        **server_conf(),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.host": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **({} if optimize else INTERPRETED),
        "spark.executor.extraClassPath": ":".join(spark_class_path(*jars)),
        **conf,
    }
    command = java_command(
        "org.apache.spark.deploy.SparkSubmit",
        class_path=spark_class_path(*jars),
        # A young generation of a third makes collections a third as many: they took a twelfth of the processor time.
        heap_mb=4800 if shared else 2400,
        # The second compiler takes 130 s of processor time, and a fold is a quarter cheaper then. So a server has it back after
        # 7 minutes of work: 44 tests of silver, reconcile and schema 434 s without and 436 s with it. Most parts end before.
        optimize=optimize or shared,
        options=[*OPTIONS, f"-Xmn{1600 if shared else 800}m", f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}"],
        arguments_file=folder / "spark.args",
    )
    command += ["--master", master, *(x for k, v in all_of_it.items() for x in ("--conf", f"{k}={v}"))]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    with running(command, log=log) as process:
        until(lambda: _accepts(port), process=process, log=log)
        yield f"sc://127.0.0.1:{port}", process.kill


@contextmanager
def kafka_broker(folder: Path) -> Iterator[str]:
    """One broker in KRaft combined mode; its bootstrap address."""
    folder.mkdir(parents=True, exist_ok=True)
    port, controller, log = free_port(), free_port(), folder / "kafka.log"
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "auto.create.topics.enable": "false",
    }
    file = folder / "kafka.properties"
    file.write_text("".join(f"{k}={v}\n" for k, v in properties.items()))

    def kafka(main: str) -> list[str]:
        return java_command(main, class_path=locked_jars("kafka"), heap_mb=256, arguments_file=folder / "kafka.args")

    format_ = [*kafka("kafka.tools.StorageTool"), "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", str(file)]
    subprocess.run(format_, check=True, capture_output=True, timeout=60)
    with running([*kafka("kafka.Kafka"), str(file)], log=log) as process:
        until(lambda: _accepts(port), process=process, log=log)
        yield f"127.0.0.1:{port}"


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
