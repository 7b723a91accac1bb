"""The documented lines of spark-submit, as they are written: in this process's machine alone, and on a standalone cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from deltalake import DeltaTable

from cdc_assets_tests.support.lake.readings import SOURCE, send
from cdc_assets_tests.support.lake.standalone import FIRST_COMPILER, standalone
from cdc_assets_tests.support.lake.topics import Broker

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "library.md").read_text()
IN_README = re.search(
    r"`(\./cdc spark-submit spark/__main__\.py --job silver --spec spec\.json)`", (ROOT / "README.md").read_text()
)


def documented(start: str) -> str:
    (line,) = [line for line in PAGE.splitlines() if line.startswith(start)]
    return line.replace("shop orders", "feeds readings").replace("shop", "feeds")


@pytest.mark.spark
def test_every_job_by_the_documented_lines(kafka: str, tmp_path: Path) -> None:
    topic, sources, lake = Broker(kafka).topic(), tmp_path / "sources", tmp_path / "lake"
    sources.mkdir()
    (sources / "feeds.yaml").write_text(SOURCE.format(topic=topic).replace("keys: [id]", "keys: [id], history: scd2"))
    # The lines are relative to the repository; what they write is not for it.
    for name in ("cdc", "spark"):
        (tmp_path / name).symlink_to(ROOT / name)
    kept = {n: v for n, v in os.environ.items() if not n.startswith(("CDC_", "DAGSTER_", "PYTHON"))}
    # As PySpark leaves it behind in a process that has had a session of Spark Connect.
    kept["SPARK_CONNECT_MODE_ENABLED"] = "1"
    # Ten JVMs of half a minute: the second compiler costs them more than it saves.
    kept["JDK_JAVA_OPTIONS"] = FIRST_COMPILER
    own = {"CDC_HOME": str(tmp_path / "home"), "CDC_SOURCES": str(sources), "CDC_LAKE_BOOTSTRAP": kafka, "CDC_LAKE": str(lake)}

    def run(line: str) -> str:
        command = ["sh", "-c", line]
        done = subprocess.run(command, cwd=tmp_path, env=kept | own, capture_output=True, text=True, check=False, timeout=400)
        assert done.returncode == 0, f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
        return done.stdout

    assert IN_README
    on_cluster = documented("./cdc spark-submit --master spark://")
    for key, at in ((1, "now"), (2, "now"), (3, "now"), (1, "later")):
        send(kafka, topic, key, at)
    run(documented("./cdc spec bronze"))
    assert json.loads((tmp_path / "spec.json").read_text())["topics"][0]["topic"] == topic
    assert json.loads(run(documented("./cdc spark-submit --master 'local[1]'")))["rows_read"] == 4
    run(documented("./cdc spec silver"))
    told = {}
    with standalone(tmp_path / "cluster") as master:
        for job in ("silver", "history", "ledger"):
            run(documented(f"./cdc spec {job}").replace("spec.json", f"{job}.json"))
            line = on_cluster.replace("spark://host:7077", master).replace(
                "--job silver --spec spec", f"--job {job} --spec {job}"
            )
            told[job] = json.loads(run(line))
        executors = [*(tmp_path / "cluster" / "work").glob("app-*/0/stderr")]
    assert len(executors) == len(told), "each of the jobs had an executor of the cluster"
    assert (told["silver"]["rows_inserted"], told["history"]["rows_inserted"]) == (3, 4)
    assert json.loads(run(IN_README[1]))["rows_inserted"] == 0

    def rows(*columns: str, of: Path) -> list[tuple[object, ...]]:
        return sorted(tuple(row.values()) for row in DeltaTable(of).to_pyarrow_table(columns=[*columns]).to_pylist())

    newest = [(1, "later"), (2, "now"), (3, "now")]
    assert rows("id", "at", of=lake / "silver" / "feeds" / "readings") == newest
    versions = [(1, "later", True), (1, "now", False), (2, "now", True), (3, "now", True)]
    assert rows("id", "at", "_is_current", of=lake / "silver" / "feeds" / "readings__history") == versions
    counts = (
        DeltaTable(lake / "ledger" / "feeds").to_pyarrow_table(columns=["mirror", "bronze", "applied", "superseded"]).to_pylist()
    )
    assert {name: sum(pane[name] or 0 for pane in counts) for name in counts[0]} == {
        "mirror": 4,
        "bronze": 4,
        "applied": 3,
        "superseded": 1,
    }
