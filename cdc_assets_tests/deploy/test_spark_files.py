"""`cdc render --target spark`: what a server of one's own is started with, and a Spark that is started so."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.stack.jars.locked_jars import cache_folder
from cdc_assets_tests.support.lake.jvm import locked_jars
from spark.table.server_facts import CATALOG, EXTENSION, PACKAGES, is_older

ROOT = Path(__file__).parents[2]


def rendered(folder: Path) -> dict[str, str]:
    done = CliRunner().invoke(app, ["render", "--target", "spark", "--out", str(folder), "--deployment", "/none"])
    assert done.exit_code == 0, done.output
    again = CliRunner().invoke(app, ["render", "--target", "spark", "--out", str(folder), "--check"])
    assert again.exit_code == 0, again.output
    return {file.name: file.read_text() for file in (folder / "spark").iterdir()}


def test_settings_jars_and_packages_are_written_without_a_deployment(tmp_path: Path) -> None:
    files = rendered(tmp_path)
    lines = [line for line in files["spark-defaults.conf"].splitlines() if not line.startswith("#")]
    settings = dict(line.split(" ", 1) for line in lines)
    assert (settings["spark.sql.extensions"], settings["spark.sql.catalog.spark_catalog"]) == (EXTENSION, CATALOG)
    assert re.search(r"delta-spark_\S+,\S*spark-sql-kafka", settings["spark.jars.packages"])
    assert "spark.sql.shuffle.partitions" not in settings
    pins = dict(line.split("==") for line in files["requirements.txt"].splitlines() if not line.startswith("#"))
    assert pins.keys() == PACKAGES.keys()
    assert not [name for name, version in pins.items() if is_older(version, PACKAGES[name])]


def test_the_hashes_are_those_of_the_jars(tmp_path: Path) -> None:
    files, jars = rendered(tmp_path), locked_jars("spark")
    command = ["sha256sum", "--check", "--strict", str(tmp_path / "spark" / "jars.sha256")]
    done = subprocess.run(command, cwd=cache_folder(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(": OK") == len(jars) == len(files["jars.sha256"].splitlines())


def test_the_oldest_versions_are_those_of_the_project() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    assert [name for name, oldest in PACKAGES.items() if not re.search(rf'"{name}>={re.escape(oldest)}[",]', project)] == []
    assert (is_older("1.6.5", "1.6.6"), is_older("25.0.1", "24"), is_older("2.9", "2.11")) == (True, False, True)
