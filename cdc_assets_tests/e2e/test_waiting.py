"""`cdc wait` on a chain that is held up by hand: it names what stands in the way, and what it says to do helps."""

from __future__ import annotations

import subprocess
import time

import pytest
import yaml

from cdc_assets_tests.e2e.source_rows import silver_rows, source_rows
from cdc_assets_tests.e2e.webserver import Graphql
from cdc_assets_tests.support.lakehouse import Lakehouse

pytestmark = pytest.mark.e2e


def waits_in_vain(lakehouse: Lakehouse, reason: str) -> str:
    """What it says while a new row cannot come; what was held up a moment ago may let one more pass."""
    deadline = time.monotonic() + 300
    while True:
        with lakehouse.connect("world") as world:
            world.execute("UPDATE country SET population = population + 1 WHERE iso = 'BR'")
        waited = lakehouse.cdc("wait", "world", "--timeout", "4", check=False)
        if reason in waited.stderr:
            assert waited.returncode == 1, waited.stdout
            return waited.stderr
        assert time.monotonic() < deadline, waited.stdout + waited.stderr


def follow(lakehouse: Lakehouse, told: str) -> subprocess.CompletedProcess[str]:
    """The command that was told to resume what stands."""
    line = next(line for line in told.splitlines() if "./cdc resume " in line)
    return lakehouse.cdc(*line.rsplit("./cdc ", 1)[1].split())


def test_a_stopped_sensor_is_named(lakehouse: Lakehouse, graphql: Graphql) -> None:
    lakehouse.cdc("wait", "world")
    graphql.stop_sensor("offsets_world")
    try:
        waits_in_vain(lakehouse, "sensor offsets_world is STOPPED: switch it on in Dagster under Automation")
    finally:
        graphql.start_sensor("offsets_world")
    lakehouse.cdc("wait", "world")


@pytest.mark.parametrize(("verb", "state"), [("stop", "STOPPED"), pytest.param("pause", "PAUSED", marks=pytest.mark.all)])
def test_a_mirror_that_was_stopped_is_named_with_the_command_that_resumes_it(lakehouse: Lakehouse, verb: str, state: str) -> None:
    lakehouse.cdc(verb, "world-mirror")
    follow(lakehouse, waits_in_vain(lakehouse, f"connector world-mirror is {state}: ./cdc resume world-mirror"))
    lakehouse.cdc("wait", "world")


@pytest.mark.all
def test_rows_without_a_record_are_named_with_the_command_that_reads_them(lakehouse: Lakehouse) -> None:
    file = lakehouse.sources / "world.yaml"
    before = file.read_text()
    with lakehouse.connect("world") as world:
        world.execute("CREATE TABLE unheard (id int PRIMARY KEY, v text)")
        world.execute("INSERT INTO unheard SELECT i, 'row ' || i FROM generate_series(1, 5) i")
    declared = yaml.safe_load(before)
    declared["tables"].append({"name": "public.unheard"})
    try:
        file.write_text(yaml.safe_dump(declared))
        lakehouse.cdc("apply")
        lakehouse.cdc("reload")
        waited = lakehouse.cdc("wait", "world", "--timeout", "10", check=False)
        assert waited.returncode == 1, waited.stdout
        (told,) = [line for line in waited.stderr.splitlines() if "public.unheard has 5 rows at the source and no record" in line]
        lakehouse.cdc(*told.rsplit("./cdc ", 1)[1].removesuffix(" reads them").split())
        lakehouse.cdc("wait", "world")
        with lakehouse.connect("world") as world:
            columns, expected = source_rows(world, "unheard")
        assert len(expected) == 5
        assert silver_rows(lakehouse.silver("world", "unheard"), columns) == expected
    finally:
        lakehouse.cdc("offboard", "world", "public.unheard", check=False)
        file.write_text(before)
        lakehouse.cdc("reload")
