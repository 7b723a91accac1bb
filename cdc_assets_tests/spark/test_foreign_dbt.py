"""A dbt model of somebody else behind silver, in a Dagster project: the blocks of docs/how-to/library.md as they stand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pytest
from confluent_kafka import Producer

from cdc_assets_tests.support.foreign_project import ForeignProject, create_environment, create_project
from cdc_assets_tests.support.lake.topics import Broker
from cdc_assets_tests.support.page_blocks import blocks_of

pytestmark = [pytest.mark.all, pytest.mark.spark]

# dbt-core 1.12 wants a parser that is compiled where it is installed.
DBT = ("dagster-dbt==0.29.27", "dagster==1.13.27", "dbt-core>=1.10,<1.12", "dbt-duckdb>=1.10")
SHOP = """\
source: shop
kind: topics
cluster: lake
tables:
  - name: orders
    topic: {topic}
    envelope: json
    keys: [id]
    columns: {{id: integer not null, state: text, email: text}}
    sensitive: [email]
"""
MAILS = 'SELECT email, count(*) AS orders FROM {{ source("shop", "orders") }} GROUP BY email'


@pytest.fixture(scope="module")
def dbt_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_environment(tmp_path_factory.mktemp("dbt"), wheel, more=DBT)


def test_a_model_is_built_behind_silver_and_reads_it(dbt_python: Path, remote: str, kafka: str, tmp_path: Path) -> None:
    topic = Broker(kafka).topic()
    places = {"CDC_LAKE": str(tmp_path / "lake"), "CDC_LAKE_BOOTSTRAP": kafka, "CDC_SPARK_REMOTE": remote}
    project = create_project(tmp_path / "lakehouse", python=dbt_python, **places)
    project.add_source("shop", SHOP.format(topic=topic))
    write_dbt_project(project)
    send(kafka, topic, {1: "open", 2: "open", 3: "paid"})
    assert_built(materialize(project))
    assert models_of(project) == [("open", 2), ("paid", 1)]
    send(kafka, topic, {1: "paid"})
    assert_built(materialize(project))
    assert models_of(project) == [("open", 1), ("paid", 2)]
    with duckdb.connect(str(project.folder / "dbt" / "gold.duckdb"), read_only=True) as asked:
        mails = asked.execute("SELECT email, orders FROM mails").fetchall()
    assert [(mail.startswith("hash:"), orders) for mail, orders in mails] == [(True, 3)]


def write_dbt_project(project: ForeignProject) -> None:
    """The page's files, a model that wants what is sensitive, and the manifest."""
    for language in ("yaml", "sql"):
        for name, text in blocks_of("library.md", language).items():
            file = project.folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    (project.folder / "dbt" / "models" / "mails.sql").write_text(MAILS)
    (project.defs / "dbt_models.py").write_text(blocks_of("library.md", "python")["dbt_models.py"])
    dbt = [str(project.python.parent / "dbt"), "parse", "--project-dir", "dbt", "--profiles-dir", "dbt"]
    parsed = project.run(dbt)
    assert parsed.returncode == 0, parsed.stdout + parsed.stderr


def send(kafka: str, topic: str, states: dict[int, str]) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    for key, state in states.items():
        row = {"id": key, "state": state, "email": "a@example.org"}
        producer.produce(topic, json.dumps(row).encode(), json.dumps({"id": key}).encode())
    assert producer.flush(60) == 0


def materialize(project: ForeignProject) -> list[dg.DagsterEvent]:
    """The model, and all that it stands on."""
    arguments = ["-m", "lakehouse.definitions", "--select", '+key:"orders_by_state" or key:"mails"']
    # Of processes of their own the other test of a foreign project tells; here they would take minutes.
    arguments += ["--config-json", json.dumps({"execution": {"config": {"in_process": {}}}})]
    done = project.python_module("dagster", "asset", "materialize", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    with project.instance() as instance:
        (run,) = instance.get_runs(limit=1)
        return [entry.dagster_event for entry in instance.all_logs(run.run_id) if entry.dagster_event is not None]


def assert_built(events: list[dg.DagsterEvent]) -> None:
    """The model came after silver, with nothing in between but silver's checks."""
    made: list[Any] = [event.asset_key for event in events if event.is_step_materialization]
    assert made.index(dg.AssetKey(["silver", "shop", "silver_orders"])) < made.index(dg.AssetKey(["orders_by_state"]))


def models_of(project: ForeignProject) -> list[tuple[str, int]]:
    with duckdb.connect(str(project.folder / "dbt" / "gold.duckdb"), read_only=True) as asked:
        return asked.execute("SELECT state, orders FROM orders_by_state ORDER BY state").fetchall()
