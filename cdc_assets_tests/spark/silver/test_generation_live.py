"""A table dropped and made again on a live PostgreSQL: noticed by its number; the old rows go with the new snapshot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.defs.lake_assets import build_silver_assets
from cdc_assets.defs.schema_and_fresh_checks import schema_result
from cdc_assets.registry import names
from cdc_assets.registry.errors import FailuresError
from cdc_assets.registry.table_declaration import SchemaChanges
from cdc_assets_tests.support.lake.lake import rows, values
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.live.small_chain import SmallChain, small_chain
from spark.errors import TableStopError
from spark.silver.column_ledger import ColumnLedger
from spark.silver.table_generation import renew_generation
from spark.specs import Column, SilverSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

EVOLVED = {"name": "public.made_again", "schema_changes": {"drop_table": "evolve"}, "history": "scd2", "truncate": "halt"}
KEPT = "public.kept_again"
SHORT = ("made_again", "kept_again")


def test_only_another_number_is_another_table() -> None:
    columns = (Column("id", "integer", False, number=2), Column("gone", "text", number=-1))
    spec = SilverSpec("s", "t", "b", "p", columns, ("id",), generation="7", schema_changes={"drop_table": "evolve"})
    ledger = ColumnLedger(columns, keys=("id",))
    first, told = renew_generation(ledger, spec, after="5")
    assert (first.generation, first.renewed, told) == ("7", "", [])
    assert renew_generation(first, replace(spec, generation=""), after="6") == (first, [])
    second, told = renew_generation(first, replace(spec, generation="8"), after="6")
    assert (second.renewed, [c.number for c in second.columns], [c.kind for c in told]) == ("6", [None, -1], ["drop_table"])
    assert renew_generation(first, replace(spec, generation="8", schema_changes={"drop_table": "ignore"}), after="6")[1] == []
    with pytest.raises(TableStopError, match="number 7 there, now 8"):
        renew_generation(first, replace(spec, generation="8", schema_changes={"drop_table": "halt"}), after="6")
    assert ColumnLedger.from_text(second.to_text()) == second


@pytest.mark.stack
def test_the_new_table_takes_the_place_of_the_old(live: LiveSource, remote: str, session: SparkSession, tmp_path: Path) -> None:
    own = replace(live, name="remade")
    run(own, *[f"CREATE TABLE {t} (id int PRIMARY KEY, v text, w text)" for t in SHORT])
    run(own, *[f"INSERT INTO {t} SELECT i, 'old', 'w' FROM generate_series(1, 4) i" for t in SHORT])
    with small_chain(own, remote, session, tmp_path, [EVOLVED, KEPT]) as chain:
        advance(chain)
        run(own, *[f"UPDATE {t} SET v = 'last' WHERE id = 1" for t in SHORT])
        # Another order of columns: their numbers say nothing about the old ones.
        run(own, *[f"DROP TABLE {t}; CREATE TABLE {t} (w text, id int PRIMARY KEY, v text)" for t in SHORT])
        run(own, *[f"INSERT INTO {t} VALUES ('unseen', 2, 'new'), ('unseen', 9, 'new')" for t in SHORT])
        run(own, *[f"ALTER PUBLICATION {names.publication_name(chain.source)} ADD TABLE {t}" for t in SHORT])
        run(own, *[f"UPDATE {t} SET w = 'seen' WHERE id = 9" for t in SHORT])
        advance(chain)
        for table in SHORT:
            assert in_silver(chain, table) == {1: "last w", 2: "old w", 3: "old w", 4: "old w", 9: "new seen"}
            assert not checked(chain, table).passed
        assert chain.history_told("made_again")[0], chain.history_told("made_again")
        read_whole(chain)
        run(own, *[f"DELETE FROM {t} WHERE id = 2; INSERT INTO {t} VALUES ('w', 3, 'third')" for t in SHORT])
        advance(chain)
        assert in_silver(chain, "made_again") == {3: "third w", 9: "new seen"}
        assert checked(chain, "made_again").passed
        assert chain.history_told("made_again")[::2] == (True, (len(rows(history_path(chain))), 2))
        assert in_silver(chain, "kept_again") == {1: "last w", 3: "third w", 4: "old w", 9: "new seen"}
        # Row 1 changed after the last fold that saw the old table: only its place tells, and that is not known.
        assert "at least 1 row of the one before" in str(checked(chain, "kept_again").description)
        gone_for_good(chain)


def gone_for_good(chain: SmallChain) -> None:
    """The source has no such table any more: what was captured of it arrives all the same, unless the policy is halt."""
    run(chain.live, "INSERT INTO kept_again VALUES ('w', 5, 'fifth')", "DROP TABLE kept_again")
    chain.advance(fold=False)
    tables = [chain.source.table("kept_again").model_copy(update={"schema_changes": SchemaChanges(drop_table="halt")})]
    halting = chain.source.model_copy(update={"tables": tuple(tables)})
    with pytest.raises(FailuresError, match=r"source remade has no table public\.kept_again any more"):
        dg.materialize([build_silver_assets(halting)], resources={"platform": chain.platform})
    # Of one partition, however many rows were deleted.
    assert advance(chain)["cdc/positions_remembered"].value == 1
    assert in_silver(chain, "kept_again") == {1: "last w", 3: "third w", 4: "old w", 5: "fifth w", 9: "new seen"}


def run(live: LiveSource, *statements: str) -> None:
    with live.connection() as connection:
        for statement in statements:
            connection.execute(statement.encode())


def in_silver(chain: SmallChain, table: str) -> dict[int, str]:
    return {row["id"]: f"{row['v']} {row['w']}" for row in values(chain.silver(table))}


def checked(chain: SmallChain, table: str) -> Any:
    return schema_result(str(chain.root), chain.source, chain.source.table(table))


def history_path(chain: SmallChain) -> str:
    return names.history_path(str(chain.root), chain.source, chain.source.table("made_again"))


def advance(chain: SmallChain) -> Mapping[str, Any]:
    """Into bronze, and into silver and its history by Dagster's assets; what is told of the table without a history."""
    chain.advance(fold=False)
    result = dg.materialize([build_silver_assets(chain.source)], resources={"platform": chain.platform})
    assert result.success
    made = {m.asset_key.path[-1]: m.metadata for m in result.asset_materializations_for_node("cdc_silver_remade")}
    assert made["silver_made_again"]["cdc/history_versions"].value == len(rows(history_path(chain)))
    assert "cdc/history_versions" not in made["silver_kept_again"]
    return made["silver_kept_again"]


def read_whole(chain: SmallChain) -> None:
    """As docs/explanation/schema-changes.md says it; the rows are in the topics then."""
    source, folder = chain.source, chain.root / "sources"
    folder.mkdir()
    declared = {**source.model_dump(mode="json", include={"source", "database"}), "tables": [EVOLVED, {"name": KEPT}]}
    (folder / f"{source.name}.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in declared.items()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDC_SOURCES", str(folder))
        patch.setenv("CDC_CORE_BOOTSTRAP", chain.live.bootstrap)
        patch.setenv("CDC_CORE_CONNECT", chain.live.connect.url)
        for table in SHORT:
            done = CliRunner().invoke(app, ["snapshot", source.name, f"public.{table}", "--blocking"])
            assert (done.exit_code, "read again (blocking): 2 rows" in done.output) == (0, True), (done.output, done.exception)
