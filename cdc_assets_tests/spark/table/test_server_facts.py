"""What a Spark server that others run is asked, and what is said of what it lacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.cli.verbs.status import foreign_spark
from cdc_assets.clients import spark_sessions as sessions
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.spark_sessions import MEND, lacks_of
from cdc_assets.registry.errors import SparkRunError
from cdc_assets_tests.support.lake import jvm
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake
from cdc_assets_tests.support.lake.readings import SOURCE
from spark.silver import small_tables
from spark.table import server_facts
from spark.table.spark_session import SparkCluster, cluster_of, connect, leave

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def foreign(remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The tests' server, as one that no stack of ours has started; no database is declared."""
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "feeds.yaml").write_text(SOURCE.format(topic="readings"))
    for name, value in (("SPARK_REMOTE", remote), ("HOME", str(tmp_path)), ("SOURCES", str(tmp_path / "sources"))):
        monkeypatch.setenv(f"CDC_{name}", value)
    monkeypatch.setattr(sessions, "_COMPLETE", set())
    return remote


def test_a_server_tells_its_versions_executors_and_their_python(session: SparkSession) -> None:
    facts = server_facts.look_at_server(session)
    assert (facts.spark, facts.python, list(lacks_of(facts))) == (pyspark.__version__, "", [])
    assert facts.cluster == cluster_of(session) == SparkCluster("local[2]", 2)
    assert facts.jars.keys() == {server_facts.DELTA, server_facts.KAFKA, "kafka-clients"}
    assert {version.count(".") for name, version in facts.jars.items() if name != server_facts.KAFKA} == {2}
    (executor,) = facts.executors
    assert "SparkConnectServer" in Path(f"/proc/{executor.pid}/cmdline").read_text()


def test_each_lack_is_said_with_its_place(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not server_facts._is_known(session, "no.such.Thing", "VERSION")
    monkeypatch.setattr(server_facts, "PACKAGES", {"no-such-package": "1", "pyarrow": "99"})
    told = server_facts.python_lack(session)
    assert "no-such-package is not installed" in told
    assert "is older than 99" in told
    bare = server_facts.SparkFacts(SparkCluster("yarn", 8), "3.5.1", {}, {}, python=told)
    assert {lack.rule: lack.is_needed for lack in lacks_of(bare)} == {
        "spark_version": True,
        "delta_extension": True,
        "delta_catalog": True,
        "delta_spark": True,
        "spark_sql_kafka_0_10": True,
        "session_timeout": False,
        "python_of_executors": False,
    }


def test_a_server_is_looked_at_where_the_threads_own_session_has_ended(
    session: SparkSession, remote: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    ended = connect(remote)
    leave(ended)
    monkeypatch.setattr(ConnectSession, "_default_session", ended)
    monkeypatch.setattr(ConnectSession._active_session, "session", ended)
    assert server_facts.python_lack(session) == ""


def test_executors_with_another_delta_are_told() -> None:
    def rules(delta: str) -> set[str]:
        jars = {server_facts.DELTA: delta, server_facts.KAFKA: "found"}
        return {lack.rule for lack in lacks_of(server_facts.SparkFacts(SparkCluster("yarn", 8), "4.0.1", {}, jars))}

    assert rules("4.4.0") == rules("found") == rules("99.0") == {"delta_extension", "delta_catalog", "session_timeout"}
    assert rules("4.0.0") - rules("4.4.0") == {"delta_version"}
    assert rules("4.0.0, 4.4.0") - rules("4.4.0") == {"delta_version", "delta_versions"}


def test_small_work_is_left_to_spark_where_executors_lack_a_package(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(session, tmp_path)
    lake.put("t", event(0, {"id": 1, "v": "one"}))
    lake.append(lake.all_of("t"))
    monkeypatch.setattr(server_facts, "cluster_of", lambda _: SparkCluster("spark://elsewhere:7077", 2))
    monkeypatch.setattr(server_facts, "PACKAGES", {"no-such-package": "1"})
    [outcome] = small_tables.run(session, small_tables.SmallTablesSpec((lake.spec("t"),)))
    assert outcome.result is None
    assert "no-such-package is not installed" in outcome.left
    assert small_tables.fold_one(session, lake.spec("t")).version == 0


def test_a_foreign_server_is_refused_by_what_it_lacks(foreign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(pyspark, "__version__", "3.5.1")
        with pytest.raises(SparkRunError, match=rf"it is Spark 4\.\S+, and the client 3\.5\.1; {MEND}"):
            Platform().spark().run(lambda *_: None, None)
        (row, *_) = foreign_spark(Platform())
        assert (row["health"], row["address"]) == ("unhealthy", foreign)
    assert Platform().spark().run(lambda session, _: session.range(3).count(), None) == 3


def test_status_and_preflight_have_rows_for_it(foreign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = foreign_spark(Platform())
    assert [row["name"] for row in rows] == ["spark (yours)", "spark master (yours)", "executor (yours)"]
    assert [row["address"] for row in rows[:2]] == [foreign, "local[2]"]
    assert rows[1]["detail"] == "1 executor alive, 2 tasks at a time"
    done = CliRunner().invoke(app, ["preflight", "-o", "json"])
    assert done.exit_code == 0, done.output
    (report,) = json.loads(done.stdout)
    assert (report["source"], report["place"], report["ok"]) == ("spark", foreign, True)
    monkeypatch.setenv("CDC_SPARK_REMOTE", "sc://127.0.0.1:9")
    ((away),) = foreign_spark(Platform())
    assert (away["health"], "is not reached" in away["detail"]) == ("unhealthy", True)
    assert CliRunner().invoke(app, ["preflight"]).exit_code == 1


@pytest.mark.all
@pytest.mark.service
def test_a_bare_server_is_refused_by_all_that_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spark.table import server_conf as of_servers

    monkeypatch.setattr(of_servers, "server_conf", lambda: {"spark.ui.enabled": "false"})
    monkeypatch.setattr(jvm, "spark_class_path", lambda: [str(Path(pyspark.__file__).parent / "jars" / "*")])
    with jvm.spark_connect(tmp_path / "bare") as (address, _):
        with pytest.raises(SparkRunError) as met:
            sessions.SparkSessions(address, is_foreign=True).run(lambda *_: None, None)
        opened = connect(address)
        rules = {lack.rule for lack in lacks_of(server_facts.look_at_server(opened))}
        opened.stop()
    assert rules == {"delta_extension", "delta_catalog", "delta_spark", "spark_sql_kafka_0_10", "session_timeout"}
    for told in ("DeltaSparkSessionExtension", "the jar delta-spark is not there", "spark-sql-kafka-0-10", MEND):
        assert told in str(met.value)
