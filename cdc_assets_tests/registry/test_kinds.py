"""The tables of kinds: every room has a row for each kind, and what the rows say agrees with the kind's facts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest

from cdc_assets.capture.kind_capture import CAPTURE, capture_of
from cdc_assets.clients.kind_clients import CLIENTS, clients_of
from cdc_assets.proof.kind_proof import PROOF, proof_of
from cdc_assets.recovery.kind_recovery import RECOVERY, recovery_of
from cdc_assets.registry.databases import MariaDb
from cdc_assets.registry.kind_models import MODELS, model_of
from cdc_assets.registry.kinds import DATABASES, KINDS, expect
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
DRIVERS = ("dagster", "pyspark", "confluent_kafka", "deltalake", "pyarrow", "psycopg", "pymysql", "oracledb", "pytds", "pymongo")
TABLES: Mapping[str, Mapping[str, object]] = {
    "cdc_assets.clients.kind_clients": CLIENTS,
    "cdc_assets.capture.kind_capture": CAPTURE,
    "cdc_assets.proof.kind_proof": PROOF,
    "cdc_assets.recovery.kind_recovery": RECOVERY,
}


class _OfNoTable:
    """A source of a kind that somebody has given facts, and no row in any room."""

    name, kind_name = "lamps", "firefly"


@pytest.mark.parametrize("module", TABLES)
def test_each_room_has_a_row_for_every_kind(module: str) -> None:
    assert list(TABLES[module]) == list(KINDS)


def test_every_database_has_a_model() -> None:
    assert tuple(MODELS) == DATABASES


def test_a_missing_row_says_kind_room_and_page() -> None:
    source = _OfNoTable()
    room = {
        "clients.kind_clients": lambda: clients_of(source.kind_name),
        "capture.kind_capture": lambda: capture_of(source),
        "proof.kind_proof": lambda: proof_of(source),
        "recovery.kind_recovery": lambda: recovery_of(source),
        "registry.kind_models": lambda: model_of(source.kind_name),
    }
    for module, ask in room.items():
        with pytest.raises(LookupError) as refusal:
            ask()
        said = f"kind firefly has no row in the table of cdc_assets.{module}: add one, as docs/how-to/add-a-database.md says"
        assert str(refusal.value) == said


@pytest.mark.parametrize("name", DATABASES)
def test_the_rows_of_a_database_agree_with_its_facts(name: str) -> None:
    facts, clients, capture, proof = KINDS[name], CLIENTS[name], CAPTURE[name], PROOF[name]
    assert MODELS[name].model_fields["kind"].annotation.__args__ == (name,)  # type: ignore[union-attr]
    # Who is asked for the catalogue has an exact cut; of all others rows come by pages, in SQL or not.
    assert facts.tells_log == (clients.database is not None) == (clients.cut is not None) == (clients.rows is not None)
    assert facts.tells_columns == (clients.columns is not None)
    assert not facts.tells_place or facts.tells_log
    assert facts.tells_log or not facts.has_commit_places
    assert proof.ways is None or clients.cut or clients.pages or clients.connection
    assert facts.debezium or capture.adoption is None
    assert facts.plugin is None or facts.plugin in SETS
    assert None not in (capture.connector, capture.preflight)
    assert (facts.positions or name) in POSITION_KINDS


def _loaded_by(module: str, names: tuple[str, ...]) -> str:
    script = f"import sys, {module}; print([name for name in {names!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_the_facts_are_read_without_models_and_clients() -> None:
    assert _loaded_by("cdc_assets.registry.kinds", HEAVY) == "[]"


def test_the_tables_are_read_without_any_driver() -> None:
    assert _loaded_by(", ".join(TABLES), DRIVERS) == "[]"


def test_files_of_another_kind_refuse_a_database() -> None:
    with pytest.raises(TypeError, match="str was given to the files of MariaDb: see docs/how-to/add-a-database.md"):
        expect("nothing", MariaDb)


def test_who_never_met_a_server_is_experimental() -> None:
    assert {name for name, row in KINDS.items() if row.experimental} >= {"sqlserver", "oracle", "mongodb"}


def test_the_server_that_a_kind_was_tried_on_is_the_tests_own() -> None:
    assert SECANTUS.packages[0] in KINDS["mongodb"].experimental
