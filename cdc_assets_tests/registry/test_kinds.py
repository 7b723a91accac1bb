"""The table of kinds: each part is where its row says, and what a row says agrees with itself."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest

from cdc_assets.registry.databases import MariaDb
from cdc_assets.registry.kinds import DATABASES, KINDS, Kind, Part, expect
from cdc_assets.stack.jars.jar_sets import SETS
from cdc_assets_tests.programs.secantus import SECANTUS
from spark.record_formats import POSITION_KINDS

HEAVY = (
    "dagster",
    "pyspark",
    "pydantic",
    "confluent_kafka",
    "deltalake",
    "cdc_assets.registry.databases",
    "cdc_assets.registry.source_declaration",
    "cdc_assets.clients",
)


def parts_of(row: Kind) -> dict[str, Part]:
    return {f.name: part for f in dataclasses.fields(row) if isinstance(part := getattr(row, f.name), Part)}


@pytest.mark.parametrize("name", KINDS)
def test_each_part_is_where_its_row_says(name: str) -> None:
    found = {part: getattr(loaded := each.load(), "__name__", loaded) for part, each in parts_of(KINDS[name]).items()}
    assert found == {part: each.place.partition(":")[2] for part, each in parts_of(KINDS[name]).items()}


@pytest.mark.parametrize("name", DATABASES)
def test_a_row_agrees_with_itself(name: str) -> None:
    row = KINDS[name]
    assert row.model is not None
    assert row.model.load().model_fields["kind"].annotation.__args__ == (name,)
    # Who is asked for the catalogue has an exact cut; of all others rows come by pages, in SQL or not.
    assert (row.database is None) == (row.cut is None) == (row.rows is None)
    assert row.compare is None or row.cut or row.pages or row.connection
    assert row.plugin is None or row.plugin in SETS
    assert None not in (row.connector, row.preflight)
    assert (row.positions or name) in POSITION_KINDS


def test_the_table_is_read_without_what_it_names() -> None:
    script = f"import sys, cdc_assets.registry.kinds; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_files_of_another_kind_refuse_a_database() -> None:
    with pytest.raises(TypeError, match="str was given to the files of MariaDb: see cdc_assets/registry/kinds.py"):
        expect("nothing", MariaDb)


def test_who_never_met_a_server_is_experimental() -> None:
    assert {name for name, row in KINDS.items() if row.experimental} >= {"sqlserver", "oracle", "mongodb"}


def test_the_server_that_a_kind_was_tried_on_is_the_tests_own() -> None:
    assert SECANTUS.packages[0] in KINDS["mongodb"].experimental
