"""The whole stack, started by the fixture: every address answers as its real clients expect it."""

from __future__ import annotations

import json
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

import httpx
import psycopg
import pytest

from cdc_assets.stack.component_plan import load
from cdc_assets.stack.component_state import read_state
from cdc_assets.stack.examples.example_sources import load_examples
from cdc_assets_tests.support.stack_commands import cdc
from cdc_assets_tests.support.stack_fixture import RunningStack

pytestmark = pytest.mark.stack


def login(stack: RunningStack, source: str) -> dict[str, str]:
    environment = stack.environment
    password = (stack.home.secrets / f"{source}_db_password").read_text()
    at = {"host": environment["CDC_POSTGRES_HOST"], "port": environment["CDC_POSTGRES_PORT"]}
    return {**at, "user": f"{source}_cdc", "dbname": source, "password": password}


def test_status_lists_every_component_with_its_address_and_memory(stack: RunningStack) -> None:
    result = cdc(stack, "status", "-o", "json", "--no-tables")
    assert result.returncode == 0, result.stdout + result.stderr
    answer = json.loads(result.stdout)
    assert answer["healthy"]
    # GCS runs where a source names it.
    names = {c["name"] for c in answer["components"]} - {"gcs"}
    kafka = {"core-kafka", "lake-kafka", "core-connect", "lake-connect"}
    assert names == {"postgres", "spark-connect", "s3", "dagster-code", "dagster-webserver", "dagster-daemon"} | kafka
    assert all(c["pid"] and c["rss_bytes"] and Path(c["log"]).exists() for c in answer["components"])
    assert answer["rss_bytes"] < 6 * 2**30
    assert {"CDC_SPARK_REMOTE", "CDC_CORE_BOOTSTRAP", "AWS_ENDPOINT_URL_S3", "dsn_world", "dsn_bank"} <= set(answer["addresses"])
    secrets = [file.read_text() for folder in ("secrets", "private") for file in (stack.home.root / folder).iterdir()]
    assert not [secret for secret in secrets if secret in result.stdout]


def test_the_examples_hold_real_rows_and_loading_again_changes_nothing(stack: RunningStack) -> None:
    counts = "SELECT (SELECT count(*) FROM country), (SELECT count(*) FROM city), (SELECT max(xmin::text::bigint) FROM city)"
    with psycopg.connect(**login(stack, "world")) as connection:  # type: ignore[arg-type]
        before = connection.execute(counts).fetchone()
        assert before
        assert (before[0], before[1] > 30_000) == (252, True)
        vienna = connection.execute(
            "SELECT country, latitude::text, 'Wien' = ANY (alternate_names) FROM city WHERE name = 'Vienna'"
        )
        assert ("AT", "48.20849", True) in vienna.fetchall()
        load_examples(load(stack.home))
        assert connection.execute(counts).fetchone() == before


def test_traffic_writes_to_the_bank(stack: RunningStack) -> None:
    def rows() -> int:
        with psycopg.connect(**login(stack, "bank")) as connection:  # type: ignore[arg-type]
            found = connection.execute("SELECT count(*) FROM pgbench_history").fetchone()
        assert found
        return int(found[0])

    before = rows()
    result = cdc(stack, "traffic", "--rate", "50", "--seconds", "2")
    assert result.returncode == 0, result.stderr
    processed = next(line for line in result.stdout.splitlines() if "transactions actually processed" in line)
    assert rows() - before == int(processed.rpartition(" ")[2]) > 0


def test_connect_has_its_connectors_and_refuses_foreign_client_settings(stack: RunningStack) -> None:
    core, lake = stack.environment["CDC_CORE_CONNECT"], stack.environment["CDC_LAKE_CONNECT"]
    auth = ("cdc", stack.home.private("connect_password"))
    classes = {plugin["class"].rpartition(".")[2] for plugin in httpx.get(f"{core}/connector-plugins", auth=auth).json()}
    assert "PostgresConnector" in classes
    mirror = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
    config = {"connector.class": mirror, "producer.override.sasl.jaas.config": "x", "name": "x", "source.cluster.alias": "a"}
    answer = httpx.put(f"{lake}/connectors/x/config", json={**config, "target.cluster.alias": "b"}, auth=auth)
    assert answer.status_code == 400
    assert "sasl.jaas.config" in answer.text


def test_s3_honours_a_conditional_write_through_its_own_client(stack: RunningStack) -> None:
    """As `stack/test_gcs_server.py` has it of GCS, which runs where a source names it."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import ClientError

    s3 = boto3.client("s3", config=Config(s3={"addressing_style": "path"}))
    s3.put_object(Bucket="cdc-backup", Key="test/once", Body=b"1", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.put_object(Bucket="cdc-backup", Key="test/once", Body=b"2", IfNoneMatch="*")
    assert s3.get_object(Bucket="cdc-backup", Key="test/once")["Body"].read() == b"1"


def test_everything_listens_on_the_loopback_only(stack: RunningStack) -> None:
    import psutil

    state = read_state(stack.home)
    assert state
    ours = [
        p for c in state.components if c.pid for p in (psutil.Process(c.pid), *psutil.Process(c.pid).children(recursive=True))
    ]
    listening = set()
    for process in ours:
        # PostgreSQL's workers come and go.
        with suppress(psutil.NoSuchProcess):
            listening |= {c.laddr.ip for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN}
    assert listening
    assert {ip for ip in listening if not ip_address(ip.removeprefix("::ffff:")).is_loopback} == set()


def test_an_unknown_log_is_answered_with_the_known_ones(stack: RunningStack) -> None:
    result = cdc(stack, "logs", "kafka")
    assert result.returncode == 1
    assert "no log of 'kafka'" in result.stderr
    assert "core-kafka" in result.stderr
    assert "Traceback" not in result.stderr
    shown = cdc(stack, "logs", "core-kafka", "-n", "20").stdout.splitlines()
    assert shown
    assert shown[0] in (stack.home.root / "logs" / "core-kafka.log").read_text(errors="replace")
