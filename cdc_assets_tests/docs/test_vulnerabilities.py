"""Our page of vulnerabilities speaks of what is used: each part on it has that version in a lock file or the pyspark wheel."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from cdc_assets.stack.component import Site
from cdc_assets.stack.components.spark_connect_server import SparkConnect
from cdc_assets.stack.home import Home
from cdc_assets.stack.jars.locked_jars import read_lock
from cdc_assets.stack.loopback import assign

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "vulnerabilities.md").read_text()
WHEEL = Path(pyspark.__file__).parent / "jars"
PARTS = re.findall(r"^\| `(\S+) (\S+)` \| `([\w-]+)` \|", PAGE, re.MULTILINE)
REPLACED = re.findall(r"^\| `(\S+) (\S+)` \| (?:`(\S+) (\S+)`|[\d.]+)", PAGE.split("## Reached")[0], re.MULTILINE)
LOCK = read_lock()


def versions(part: str, place: str) -> set[str]:
    """Of a part inside of the wheel, or of a set of jars."""
    if place != "pyspark":
        return {jar.gav.rpartition(":")[2] for jar in LOCK.jars([place]) if jar.gav.rpartition(":")[0] == part}
    if part.startswith("jetty-"):
        with ZipFile(next(WHEEL.glob("spark-core_*.jar"))) as core:
            told = core.read(f"META-INF/maven/org.eclipse.jetty/{part}/pom.properties").decode()
        return set(re.findall(r"^version=(\S+)$", told, re.MULTILINE))
    return {found[1] for jar in WHEEL.glob("*.jar") if (found := re.fullmatch(rf"{re.escape(part)}-(\d[^-]*)\.jar", jar.name))}


@pytest.mark.parametrize(("part", "version", "place"), PARTS)
def test_each_version_on_the_page_is_the_one_that_is_used(part: str, version: str, place: str) -> None:
    assert versions(part, place) == {version}


def test_the_page_is_read_whole() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert len(rows) == len(PARTS) + len(REPLACED) > 20
    assert [row for row in rows if "CVE-" not in row and "the same" not in row] == []


def test_what_is_replaced_comes_before_what_the_wheel_has(tmp_path: Path) -> None:
    """Java takes a class from the first jar that has it."""
    site = Site(Home(tmp_path).create(), assign(("spark-connect",), {}))
    server = SparkConnect(site)
    server.run.mkdir(parents=True, exist_ok=True)
    server.command()
    line = next(text for text in (server.run / "java.args").read_text().splitlines() if str(WHEEL) in text)
    before = line.split(str(WHEEL))[0]
    for part, version, old, old_version in REPLACED:
        assert versions(part, "spark") == {version}
        assert f"{part.rpartition(':')[2]}-{version}.jar" in before
        assert not old or versions(old, "pyspark") == {old_version}
