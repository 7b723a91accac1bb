"""Spark's own cluster manager on this machine: a master, workers, and for each application an executor on each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cdc_assets.stack.runtimes import java_command, java_home
from cdc_assets_tests.support.lake.jvm import OPTIONS, free_port, running, spark_class_path, until

FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that live for less than a minute."""


@contextmanager
def standalone(folder: Path, *, workers: int = 1) -> Iterator[str]:
    """A master and workers of Spark's own cluster manager, with one core each: the master's address."""
    import pyspark

    folder.mkdir()
    port, log = free_port(), folder / "cluster.log"
    home = java_home(folder)

    def command(main: str, *arguments: str) -> list[str]:
        file = folder / f"{main}.args"
        started = java_command(
            f"org.apache.spark.deploy.{main}", class_path=spark_class_path(), heap_mb=256, arguments_file=file, options=OPTIONS
        )
        variables = {
            "JAVA_HOME": str(home),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SCALA_VERSION": "2.13",
            # Of the executors, which have the worker's environment.
            "JDK_JAVA_OPTIONS": FIRST_COMPILER,
        }
        return [
            "env",
            *(f"{n}={v}" for n, v in variables.items()),
            *started,
            "--host",
            "127.0.0.1",
            "--webui-port",
            "0",
            *arguments,
        ]

    master = f"spark://127.0.0.1:{port}"
    worker = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work"), master)
    with ExitStack() as processes:
        first = processes.enter_context(running(command("master.Master", "--port", str(port)), log=log))
        until(lambda: "I have been elected leader" in log.read_text(), process=first, log=log)
        last = [processes.enter_context(running(command("worker.Worker", *worker), log=log)) for _ in range(workers)][-1]
        told = "Successfully registered with master"
        until(lambda: log.read_text().count(told) == workers, process=last, log=log)
        yield master
