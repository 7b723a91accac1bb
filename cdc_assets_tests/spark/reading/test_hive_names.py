"""The same names in a Hive metastore, a server of its own: another Spark finds them, and a restart does not lose them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.stack.runtimes import java_command
from cdc_assets_tests.support.lake.declared_topic import SOURCE
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.jvm import free_port, running, spark_class_path, spark_connect, until
from cdc_assets_tests.support.lake.lake import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.all, pytest.mark.spark]

ENDED = "its Spark ends before the test, and the second lake goes on with what the first one made"
METASTORE = "org.apache.hadoop.hive.metastore.HiveMetaStore"
SETTINGS = {
    # Its asynchronous log wants a jar that PySpark does not bring.
    "hive.async.log.enabled": "false",
    "javax.jdo.option.ConnectionURL": "jdbc:derby:{folder}/metastore;create=true",
    "hive.metastore.warehouse.dir": "{folder}/warehouse",
    "hive.metastore.schema.verification": "false",
    "datanucleus.schema.autoCreateAll": "true",
}


@contextlib.contextmanager
def metastore(folder: Path) -> Iterator[str]:
    """Hive's own, from the jars that PySpark brings; its address."""
    folder.mkdir()
    port, log = free_port(), folder / "metastore.log"
    given = [f"-D{name}={value.format(folder=folder)}" for name, value in SETTINGS.items()]
    command = java_command(
        METASTORE,
        class_path=spark_class_path(),
        heap_mb=512,
        options=[*given, f"-Dderby.system.home={folder}"],
        arguments_file=folder / "java.args",
    )
    with running([*command, "-p", str(port)], log=log) as process:
        until(lambda: accepts(port), process=process, log=log)
        yield f"thrift://127.0.0.1:{port}"


def accepts(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


@contextlib.contextmanager
def spark(folder: Path, address: str) -> Iterator[tuple[str, SparkSession]]:
    from spark.table.spark_session import connect

    conf = {"spark.sql.catalogImplementation": "hive", "spark.hadoop.hive.metastore.uris": address}
    with spark_connect(folder, conf=conf) as (remote, _):
        session = connect(remote)
        yield remote, session
        session.stop()


def test_names_in_a_hive_metastore_outlive_the_spark_that_made_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "source.yaml").write_text(f"{SOURCE}    sensitive: [v]\n")
    for name, value in {"CDC_HOME": "home", "CDC_SOURCES": "sources", "CDC_LAKE": "lake"}.items():
        monkeypatch.setenv(name, str(tmp_path / value))
    with metastore(tmp_path / "hive") as address:
        with spark(tmp_path / "one", address) as (remote, session):
            monkeypatch.setenv("CDC_SPARK_REMOTE", remote)
            lake = Lake(session, tmp_path / "lake", not_compared=ENDED)
            put_and_fold(lake, 1, "a")
            register()
        with spark(tmp_path / "two", address) as (remote, session):
            assert shown(session) == [(1, True)]
            lake = Lake(session, tmp_path / "lake", not_compared=ENDED)
            put_and_fold(lake, 2, "b")
            assert shown(session) == [(1, True), (2, True)]
            monkeypatch.setenv("CDC_SPARK_REMOTE", remote)
            register("--show-sensitive")
            assert [row.v for row in session.table("silver_source.t").orderBy("id").collect()] == ["a", "b"]


def put_and_fold(lake: Lake, key: int, value: str) -> None:
    lake.put("t", event(key, {"id": key, "v": value}, op="c"))
    lake.append(lake.all_of("t"))
    lake.fold(lake.spec("t"))


def register(*words: str) -> None:
    done = CliRunner().invoke(app, ["sql", "--register", *words])
    assert done.exit_code == 0, (done.output, done.exception)


def shown(session: SparkSession) -> list[tuple[Any, bool]]:
    rows = session.sql("SELECT id, v FROM silver_source.t ORDER BY id").collect()
    return [(row.id, row.v.startswith("hash:")) for row in rows]
