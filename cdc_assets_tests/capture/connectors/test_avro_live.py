"""A source whose connector writes Avro, by the commands of a person, on real parts, with Apicurio behind a login.

The oracle is the source's own rows. Silver's are read by delta-rs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from cdc_assets.capture.connectors.debezium_signals import read_notifications
from cdc_assets.capture.log_position import carry_to_lake
from cdc_assets.capture.onboarding.onboarding_state import find_source
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.registry import names
from cdc_assets_tests.e2e.source_rows import silver_rows, source_rows
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.servers.apicurio import Apicurio, apicurio
from cdc_assets_tests.support.servers.login_front import login_front

pytestmark = pytest.mark.all

CANARY = "s3cr/t canary:@"
USER = "cdc"
FILE = """\
source: {name}
database: {{kind: postgresql, host: 127.0.0.1, port: {port}, dbname: live, user: live, password: {{secret: live}}}}
capture:
  envelope: debezium-avro
  schema_registry: {{url: "{url}", user: cdc, password: {{secret: registry_password}}}}
tables:
  - {{name: public.avro_all}}
"""
TABLE = """
CREATE TABLE avro_all (
  id int PRIMARY KEY, "na.me" text, n numeric(12,3), money numeric(38,10), free numeric, small smallint, big bigint,
  f double precision, r real, flag boolean, d date, at timestamp, at_ms timestamp(3), zoned timestamptz, t time, b bytea,
  j jsonb, u uuid, words text[], long_text text, "1st" text DEFAULT 'standard', ten int DEFAULT 10,
  sure text NOT NULL DEFAULT 'sure'
);
ALTER TABLE avro_all ALTER long_text SET STORAGE EXTERNAL, ALTER b SET STORAGE EXTERNAL
"""
ROW = """
INSERT INTO avro_all VALUES (%s, 'quo"te', -0.001, 1234567890123456789012345678.0123456789, 0.10, -32768,
  9223372036854775807, 0.1, 1e-30, true, '2024-02-29', '2024-02-29 12:00:00.000001', '1969-12-31 23:59:59.999',
  '2024-02-29 12:00:00.000001+05', '23:59:59.999999', decode(repeat('00ff', 5000), 'hex'), '{"a": [1, null]}',
  '00000000-0000-0000-0000-000000000001', '{a,NULL,"c d"}', repeat(md5(%s::text), 400))
"""
NULLS = "INSERT INTO avro_all SELECT %s, {}, NULL, NULL, 'sure'".format(", ".join(["NULL"] * 19))


TEXTS = {
    "avro_all": """
    CREATE OR REPLACE TEMPORARY VIEW avro_all_texts AS
    SELECT id, "na.me", n, money, free::text AS free, small, big, f, r::float8 AS r, flag, d, at, at_ms, zoned, t::text AS t, b,
      j::text AS j, u::text AS u, words, long_text, "1st", ten, sure, more FROM avro_all
    """,
    **{
        name: f"CREATE OR REPLACE TEMPORARY VIEW {name}_texts AS SELECT id, v, n::text AS n FROM {name}"
        for name in ("avro_second", "avro_third")
    },
}
"""With the texts that silver has of some types (docs/reference/types.md); a real is widened, as Python has it."""


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    """A registry that only who logs in is answered by."""
    with apicurio(tmp_path_factory.mktemp("apicurio")) as found, login_front(found.address, USER, CANARY) as front:
        yield Apicurio(front)


@pytest.fixture(scope="module")
def cdc(
    make_cdc: Callable[[str], Cdc], schemas: Apicurio, remote: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cdc]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDC_SPARK_REMOTE", remote)
        patch.setenv("CDC_LAKE", str(tmp_path_factory.mktemp("lake")))
        yield from declared(make_cdc("avro"), schemas)


def declared(cdc: Cdc, schemas: Apicurio) -> Iterator[Cdc]:
    secret = cdc.live.home.secrets / "registry_password"
    secret.write_text(CANARY)
    text = FILE.format(name="avro", port=cdc.live.postgres.site.ports["postgres"], url=schemas.url)
    (cdc.folder / "avro.yaml").write_text(text)
    yield cdc
    for name in ("avro-capture", "avro-capture-onboard"):
        cdc.live.connect.delete(name)
    cdc.lake.connect.delete("avro-mirror")
    (cdc.folder / "avro.yaml").unlink()
    secret.unlink()


def fold(layers: Sequence[str] = ("bronze", "silver")) -> None:
    """What the source has committed until now, as Dagster runs it."""
    source = find_source("avro")
    carry_to_lake(Chain(Platform(), source), deadline=120)
    defs = dg.Definitions.merge(
        build_source_defs(source), dg.Definitions(resources={"platform": Platform()}, executor=dg.in_process_executor)
    )
    keys = [dg.AssetKey(names.asset_key(layer, source, table)) for layer in layers for table in source.tables]
    job = defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection={*keys}, asset_check_selection=set())
    assert job.execute_in_process().success


def assert_equal(cdc: Cdc, *tables: str) -> None:
    source = find_source("avro")
    for table in tables:
        with cdc.live.connection() as connection:
            connection.execute(TEXTS.get(table, ""))
            columns, rows = source_rows(connection, f"{table}_texts" if table in TEXTS else table)
        found = silver_rows(Path(names.silver_path(Platform().lake, source, source.table(table))), columns)
        assert found == rows, table


def bytes_of(bootstrap: str, topic: str) -> bytes:
    state = KafkaCluster(bootstrap).states([topic])[topic]
    records = KafkaCluster(bootstrap).records(topic, state.ranges)
    return b"".join((record.key or b"") + (record.value or b"") for record in records)


def change(connection: Any) -> None:
    connection.execute(ROW, (10, 10))
    connection.execute(NULLS, (11,))
    # The large values are left as they are: the event does not have them.
    connection.execute('UPDATE avro_all SET n = 2.5, "1st" = NULL, ten = NULL WHERE id = 1')
    connection.execute("UPDATE avro_all SET id = 12 WHERE id = 2")
    connection.execute("DELETE FROM avro_all WHERE id = 3")
    # From here on with another schema, whose new column has a default that one row has and one has not.
    connection.execute("ALTER TABLE avro_all ADD more bigint DEFAULT 5")
    connection.execute("UPDATE avro_all SET more = NULL, big = 4 WHERE id = 4")


def test_a_source_in_avro_is_in_silver_as_it_is(cdc: Cdc, schemas: Apicurio) -> None:
    with cdc.live.connection() as connection:
        connection.execute(TABLE)
        for key in (1, 2, 3, 4):
            connection.execute(ROW, (key, key))
        connection.execute(NULLS, (5,))
    held = {finding["check"]: finding["level"] for (report,) in [cdc.json("preflight", "avro")] for finding in report["findings"]}
    assert (held["schema_registry"], held["converter"]) == ("ok", "ok")
    assert "avro-capture: created, RUNNING" in cdc("apply", "avro")
    assert cdc.json("diff", "avro")[0]["summary"] == "same"
    with cdc.live.connection() as connection:
        change(connection)
    cdc.live.delivered()
    value = bytes_of(cdc.live.bootstrap, "avro.public.avro_all")
    assert value[:1] == b"\0"
    assert b'"after"' not in value
    # Nothing of the login is on Connect, nor in the topics in which Connect keeps configs.
    assert CANARY not in json.dumps(cdc.live.connect.config("avro-capture"))
    assert CANARY.encode() not in bytes_of(cdc.live.bootstrap, "_core-connect-configs")
    # What the connector says of itself is in Avro too, and is read.
    said = read_notifications(Platform().core_kafka("core"), [find_source("avro")])["avro"].said
    assert [(each.table, each.rows) for each in said if each.table] == [("public.avro_all", 5)]
    fold()
    assert_equal(cdc, "avro_all")
    assert_columns_with_defaults_are_null(cdc)


def assert_columns_with_defaults_are_null(cdc: Cdc) -> None:
    """The oracle is right about what this test is for."""
    with cdc.live.connection() as connection:
        found = connection.execute('SELECT id, "1st", ten, more FROM avro_all ORDER BY id').fetchall()
    assert found == [
        *((1, None, None, 5), (4, "standard", 10, None), (5, None, None, 5)),
        *((10, "standard", 10, 5), (11, None, None, 5), (12, "standard", 10, 5)),
    ]
    topic = bytes_of(cdc.live.bootstrap, "avro.public.avro_all")
    assert b"_1st" not in topic, "the names of columns are in the registry alone"


@pytest.mark.all
def test_tables_are_onboarded_compared_and_looked_at(cdc: Cdc) -> None:
    """After the test above: its source runs."""
    for table, route in {"avro_second": "incremental", "avro_third": "temporary"}.items():
        with cdc.live.connection() as connection:
            connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, v text DEFAULT 'standard', n numeric)")
            connection.execute(
                f"INSERT INTO {table} SELECT i, NULLIF('v' || i % 3, 'v0'), i / 8.0 FROM generate_series(1, 300) i"
            )
        outcome = cdc.json("onboard", "avro", f"public.{table}", "--route", route)
        verified = outcome["steps"]["verify"]
        assert verified["rows"] == {f"public.{table}": {"source": 300, "topic": 300}}, outcome
        with cdc.live.connection() as connection:
            connection.execute(f"UPDATE {table} SET v = NULL, n = NULL WHERE id = 7")
            connection.execute(f"DELETE FROM {table} WHERE id = 8")
    fold()
    assert_equal(cdc, "avro_all", "avro_second", "avro_third")
    found = cdc.json("reconcile", "avro")
    assert [table["verdict"] for table in found] == ["equal"] * 3, found
    lines = cdc("peek", "avro.public.avro_second", "--key", "7", "-o", "json").splitlines()
    assert [json.loads(line)["op"] for line in lines] == ["r", "u"]
    after = json.loads(lines[-1])["value"]["after"]
    assert {name: after[name] for name in ("id", "v", "n")} == {"id": "7", "v": None, "n": None}
    said = cdc("peek", "avro.notifications", "--limit", "100", "-o", "json").splitlines()
    # The table that a temporary connector reads is an initial snapshot of that.
    assert {json.loads(line)["value"]["aggregate_type"] for line in said} == {"Initial Snapshot", "Incremental Snapshot"}
    assert len(cdc("peek", "avro.notifications", "--limit", "1", "-o", "json").splitlines()) == 1
