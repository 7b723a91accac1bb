"""The documented lines of spark-submit, as they are written: in this process's machine alone, and on a standalone cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.support.lake.readings import SOURCE, send
from cdc_assets_tests.support.lake.standalone import FIRST_COMPILER, standalone
from cdc_assets_tests.support.lake.topics import Broker

pytestmark = pytest.mark.all

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "library.md").read_text()
IN_README = re.search(
    r"`(\./cdc spark-submit spark/__main__\.py --job silver --spec spec\.json)`", (ROOT / "README.md").read_text()
)
SILVER, NEWEST = "silver/feeds/readings", [(1, "later"), (2, "now"), (3, "now")]


def documented(start: str) -> str:
    (line,) = [line for line in PAGE.splitlines() if line.startswith(start)]
    return line.replace("shop orders", "feeds readings").replace("shop", "feeds")


@dataclass(frozen=True)
class Shell:
    """A shell in a folder that has what the lines name, and the registry of one topic with four records in it."""

    folder: Path
    topic: str
    environment: dict[str, str]

    def run(self, line: str) -> str:
        done = subprocess.run(
            ["sh", "-c", line], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False, timeout=400
        )
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
        return done.stdout

    def append_bronze(self) -> None:
        self.run(documented("./cdc spec bronze"))
        assert json.loads((self.folder / "spec.json").read_text())["topics"][0]["topic"] == self.topic
        assert json.loads(self.run(documented("./cdc spark-submit --master 'local[1]'")))["rows_read"] == 4
        self.run(documented("./cdc spec silver"))

    def rows(self, *columns: str, of: str) -> list[tuple[object, ...]]:
        table = DeltaTable(self.folder / "lake" / of).to_pyarrow_table(columns=[*columns])
        return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.fixture
def shell(kafka: str, tmp_path: Path) -> Shell:
    topic, sources = Broker(kafka).topic(), tmp_path / "sources"
    sources.mkdir()
    (sources / "feeds.yaml").write_text(SOURCE.format(topic=topic).replace("keys: [id]", "keys: [id], history: scd2"))
    # The lines are relative to the repository; what they write is not for it.
    for name in ("cdc", "spark"):
        (tmp_path / name).symlink_to(ROOT / name)
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("CDC_", "DAGSTER_", "PYTHON"))}
    # As PySpark leaves it behind in a process that has had a session of Spark Connect.
    kept["SPARK_CONNECT_MODE_ENABLED"] = "1"
    # JVMs of half a minute each: the second compiler costs them more than it saves.
    kept["JDK_JAVA_OPTIONS"] = FIRST_COMPILER
    folders = {"CDC_HOME": tmp_path / "home", "CDC_SOURCES": sources, "CDC_LAKE": tmp_path / "lake"}
    for key, at in ((1, "now"), (2, "now"), (3, "now"), (1, "later")):
        send(kafka, topic, key, at)
    return Shell(tmp_path, topic, kept | {n: str(v) for n, v in folders.items()} | {"CDC_LAKE_BOOTSTRAP": kafka})


@pytest.mark.spark
def test_bronze_and_silver_by_the_documented_lines(shell: Shell) -> None:
    assert IN_README
    shell.append_bronze()
    assert json.loads(shell.run(IN_README[1]))["rows_inserted"] == 3
    assert shell.rows("id", "at", of=SILVER) == NEWEST


@pytest.mark.spark
@pytest.mark.all
def test_every_job_on_a_cluster_by_the_documented_lines(shell: Shell) -> None:
    """Ten JVMs."""
    assert IN_README
    on_cluster = documented("./cdc spark-submit --master spark://")
    shell.append_bronze()
    told, cluster = {}, shell.folder / "cluster"
    with standalone(cluster) as master:
        for job in ("silver", "history", "ledger"):
            shell.run(documented(f"./cdc spec {job}").replace("spec.json", f"{job}.json"))
            line = on_cluster.replace("spark://host:7077", master).replace(
                "--job silver --spec spec", f"--job {job} --spec {job}"
            )
            told[job] = json.loads(shell.run(line))
        executors = [*(cluster / "work").glob("app-*/0/stderr")]
    assert len(executors) == len(told), "each of the jobs had an executor of the cluster"
    assert (told["silver"]["rows_inserted"], told["history"]["rows_inserted"]) == (3, 4)
    assert json.loads(shell.run(IN_README[1]))["rows_inserted"] == 0
    assert shell.rows("id", "at", of=SILVER) == NEWEST
    versions = [(1, "later", True), (1, "now", False), (2, "now", True), (3, "now", True)]
    assert shell.rows("id", "at", "_is_current", of=f"{SILVER}__history") == versions
    counts = shell.rows("mirror", "bronze", "applied", "superseded", of="ledger/feeds")
    assert [sum(pane[at] or 0 for pane in counts) for at in range(4)] == [4, 4, 3, 1]  # type: ignore[misc]
