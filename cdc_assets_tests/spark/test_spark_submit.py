"""The documented lines of spark-submit, as they are written: in this process's machine alone, and on a standalone cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_assets.stack.java import java_command
from cdc_assets.stack.spark_submit import java_home
from cdc_assets_tests.spark.jvm import OPTIONS, free_port, running, spark_class_path, until
from cdc_assets_tests.spark.test_foreign_project import SOURCE, send
from cdc_assets_tests.spark.topics import Broker

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "library.md").read_text()
IN_README = re.search(
    r"`(\./cdc spark-submit spark/__main__\.py --job silver --spec spec\.json)`", (ROOT / "README.md").read_text()
)


def documented(start: str) -> str:
    (line,) = [line for line in PAGE.splitlines() if line.startswith(start)]
    return line.replace("shop orders", "feeds readings").replace("shop", "feeds")


@pytest.mark.spark
def test_bronze_and_silver_by_the_documented_lines(kafka: str, tmp_path: Path) -> None:
    topic, sources = Broker(kafka).topic(), tmp_path / "sources"
    sources.mkdir()
    (sources / "feeds.yaml").write_text(SOURCE.format(topic=topic))
    # The lines are relative to the repository; what they write is not for it.
    for name in ("cdc", "spark"):
        (tmp_path / name).symlink_to(ROOT / name)
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("CDC_", "DAGSTER_", "PYTHON"))}
    # As PySpark leaves it behind in a process that has had a session of Spark Connect.
    kept["SPARK_CONNECT_MODE_ENABLED"] = "1"
    own = {"CDC_HOME": str(tmp_path / "home"), "CDC_SOURCES": str(sources), "CDC_LAKE_BOOTSTRAP": kafka}

    def run(line: str) -> str:
        command, environment = ["sh", "-c", line], kept | own | {"CDC_LAKE": str(tmp_path / "lake")}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=400)
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
        return done.stdout

    def rows() -> list[int]:
        return sorted(DeltaTable(tmp_path / "lake" / "silver" / "feeds" / "readings").to_pyarrow_table()["id"].to_pylist())

    assert IN_README
    of_bronze, of_silver = documented("./cdc spec bronze"), documented("./cdc spec silver")
    alone, on_cluster = documented("./cdc spark-submit --master 'local[1]'"), documented("./cdc spark-submit --master spark://")
    for key in (1, 2):
        send(kafka, topic, key)
    run(of_bronze)
    assert json.loads((tmp_path / "spec.json").read_text())["topics"][0]["topic"] == topic
    assert json.loads(run(alone))["rows_read"] == 2
    run(of_silver)
    assert json.loads(run(IN_README[1]))["rows_inserted"] == 2
    assert rows() == [1, 2]
    send(kafka, topic, 3)
    with standalone(tmp_path / "cluster") as master:
        line = on_cluster.replace("spark://host:7077", master)
        run(of_bronze)
        assert json.loads(run(line.replace("--job silver", "--job bronze")))["rows_read"] == 1
        run(of_silver)
        assert json.loads(run(line))["rows_inserted"] == 1
        work = [*(tmp_path / "cluster" / "work").glob("app-*/0/stderr")]
    assert rows() == [1, 2, 3]
    assert len(work) == 2, "each of the two jobs had an executor of the cluster"


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """A master and a worker of Spark's own cluster manager: the master's address."""
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
    with running(command("master.Master", "--port", str(port)), log=log) as first:
        until(lambda: "I have been elected leader" in log.read_text(), process=first, log=log)
        with running(command("worker.Worker", *worker), log=log) as second:
            until(lambda: "Successfully registered with master" in log.read_text(), process=second, log=log)
            yield master
