"""Spark sessions with Delta, the Spark that they run on, and one statement within them.

The Spark is one JVM or a cluster: how many tasks it runs at a time gives a session its sizes, and tells how rows are kept there.
A statement over the rows of a DataFrame has a view for them, and the commit's metadata, for just as long as it runs.
"""

from __future__ import annotations

import atexit
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5
from weakref import WeakKeyDictionary

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from spark.table.server_conf import server_conf, session_conf, sizes_for

CHECKPOINT_FOLDER = "spark.checkpoint.dir"
_MASTER = "spark.master"
_ASKED = (_MASTER, CHECKPOINT_FOLDER)
_FRESH_SECONDS = 60.0
# As EXPLAIN shows a range: Spark cuts it into as many tasks as it runs at a time (RangeExec, leafNodeDefaultParallelism).
_SPLITS = re.compile(r"splits=(\d+)")


@dataclass(frozen=True)
class SparkCluster:
    """What the server says of itself: `slots` is how many tasks it runs at a time."""

    master: str
    slots: int
    checkpoint_folder: str = ""

    @property
    def is_one_jvm(self) -> bool:
        """Whether driver and executor are one process, which loses nothing or everything."""
        return self.master.startswith("local") and not self.master.startswith("local-cluster")

    def sizes(self) -> dict[str, str]:
        """Settings that follow from it."""
        return sizes_for(self.slots)


TWO_CORES = SparkCluster("local[2]", 2)
_OF_SESSION: WeakKeyDictionary[SparkSession, SparkCluster] = WeakKeyDictionary()
_OF_SERVER: dict[str, tuple[float, SparkCluster]] = {}


def cluster_of(session: SparkSession) -> SparkCluster:
    """The one of the session, asked once."""
    cluster = _OF_SESSION.get(session)
    if cluster is None:
        cluster = _OF_SESSION[session] = _ask(session, settings_of(session, _ASKED))
    return cluster


def ask_server(session: SparkSession, remote: str) -> SparkCluster:
    """The one of a new session of Spark Connect; each server is asked once a minute, since executors come and go.

    What is a minute old may cost time, and no row: a lost block is computed again, whoever kept it.
    """
    when, cluster = _OF_SERVER.get(remote, (0.0, None))
    if cluster is None or time.monotonic() - when > _FRESH_SECONDS:
        cluster = _ask(session, settings_of(session, _ASKED))
        _OF_SERVER[remote] = time.monotonic(), cluster
    _OF_SESSION[session] = cluster
    return cluster


def compute_once(rows: DataFrame) -> DataFrame:
    """The rows, computed now, and read as they are from then on; by `rows.transform(compute_once)`.

    In one JVM by Spark's localCheckpoint. On a cluster each block of it is on two executors, so that one may be lost; or in files
    of `spark.checkpoint.dir`, where the server names that. What is lost all the same is told by failures.is_lost_work.
    """
    cluster = cluster_of(rows.sparkSession)
    if cluster.is_one_jvm:
        return rows.localCheckpoint()
    if cluster.checkpoint_folder:
        return rows.checkpoint()
    return rows.localCheckpoint(storageLevel=StorageLevel.MEMORY_AND_DISK_2)


def settings_of(session: Any, names: Sequence[str]) -> dict[str, str]:
    """Those of these settings that the server has, by one call. A default of ours would have to be of the setting's type."""
    if getattr(session, "_sc", None) is not None:
        conf = session.sparkContext.getConf()
        return {name: value for name in names if (value := conf.get(name, session.conf.get(name, None)))}
    from pyspark.sql.connect.proto import base_pb2

    option = base_pb2.ConfigRequest.GetOption(keys=names)
    answer = session.client.config(base_pb2.ConfigRequest.Operation(get_option=option))
    return {key: value for key, value in answer.pairs if value}


def _ask(session: SparkSession, settings: Mapping[str, str]) -> SparkCluster:
    master = settings.get(_MASTER) or "unknown"
    local = re.fullmatch(r"local\[(\d+)\]", master)
    slots = int(local[1]) if local else _slots(session)
    return SparkCluster(master, slots, settings.get(CHECKPOINT_FOLDER) or "")


def _slots(session: Any) -> int:
    context = getattr(session, "_sc", None)
    if context is not None:
        return int(context.defaultParallelism)
    match = _SPLITS.search(session.range(1)._explain_string())
    return int(match[1]) if match else TWO_CORES.slots


USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
# Every execution describes its plan for a UI that the server does not have: a tenth of a small batch's time (ADR 12).
_UNSEEN_PLANS = {"spark.sql.ui.explainMode": "simple", "spark.sql.maxPlanStringLength": "1000"}


def build_session(
    app_name: str,
    *,
    master: str | None = None,
    jars: Sequence[str] = (),
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session of this process, for spark-submit; `master` and `jars` only where spark-submit does not give them."""
    builder = SparkSession.builder.appName(app_name)
    if master:
        builder = builder.master(master)
    if jars:
        builder = builder.config("spark.jars", ",".join(jars))
    for key, value in {**server_conf(), **(conf or {})}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    for key, value in cluster_of(session).sizes().items():
        session.conf.set(key, value)
    return session


def task_session_id(number: int = 0) -> str:
    """The id of the session that all jobs share whose tasks run Python.

    Spark keeps a Python daemon for each session that has run such a job, for as long as the server lives
    (PythonWorkerFactory, SPARK_JOB_ARTIFACT_UUID): a session for each job would leave a process behind for each, and its tasks
    would import everything anew. Where the server has closed one (defaultSessionTimeout), the next number is another.
    """
    return str(uuid5(NAMESPACE_URL, f"cdc_assets/tasks/{number}"))


def connect(remote: str, token: str = "", *, interceptors: Sequence[Any] = (), session_id: str = "") -> SparkSession:
    """A new Spark Connect session; with a `session_id` the one of that id, which whoever ends it must not release.

    The metadata of a MERGE can only be set as a session setting: one session per worker thread, or two tables
    would sign each other's commits. Without a `token` the variable SPARK_CONNECT_AUTHENTICATE_TOKEN counts, if it is set.
    `interceptors` are gRPC's, and see every call.
    """
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    from spark.table.connect_channel import SharedChannel

    channel = SharedChannel(remote, interceptors)
    channel.set("session_id", session_id or str(uuid4()))
    if token:
        channel.set("token", token)
    # What `SparkSession.builder.remote` sets: PySpark's functions look at it.
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    session: Any = ConnectSession.builder.channelBuilder(channel).create()
    _close_alone(session.client)
    # About half a minute; with the default a job would wait ten for a server that is gone.
    session.client.set_retry_policies([DefaultPolicy(max_retries=8, max_backoff=8_000)])
    _set_all(session.client, {**session_conf(ask_server(session, remote).slots), **_UNSEEN_PLANS})
    opened: SparkSession = session
    return opened


def leave(session: SparkSession) -> None:
    """Use a shared session no more; it goes on for others."""
    opened: Any = session
    opened.client.close()


def _set_all(client: Any, values: Mapping[str, str]) -> None:
    """All settings by one call; PySpark's own `conf.set` makes one for each, and each job has a session of its own."""
    from pyspark.sql.connect.proto import base_pb2

    pairs = [base_pb2.KeyValue(key=key, value=value) for key, value in values.items()]
    client.config(base_pb2.ConfigRequest.Operation(set=base_pb2.ConfigRequest.Set(pairs=pairs)))


def _close_alone(client: Any) -> None:
    """Closing a session must not disturb the others of the process, nor leave anything in it.

    pyspark 4.0.4 shuts down a thread pool then that all its sessions share (client/reattach.py, shutdown), and the channel,
    which is shared too (spark.table.connect_channel). Sessions are also closed when they are collected as garbage, which happens
    anywhere: in the middle of another session's call that fails with "cannot schedule new futures after shutdown", or in a
    thread of the pool, and then all calls fail from then on.
    """

    def close() -> None:
        client._closed = True

    client.close = close
    # It keeps each client until the process ends, 25 kB of it, for the models of Spark ML that a session may have on the server
    # (pyspark 4.0.4, client/core.py): `cdc stream` opens two sessions a cycle, and no session of ours has a model.
    atexit.unregister(client._cleanup_ml)


def execute(session: SparkSession, statement: str, *, view: str, rows: DataFrame, metadata: str | None = None) -> None:
    """Run `statement`, which names the rows `view`; `metadata` becomes the commit's userMetadata."""
    rows.createOrReplaceTempView(view)
    if metadata is not None:
        session.conf.set(USER_METADATA, metadata)
    try:
        # A command runs at once; to collect would only fetch its metrics, by a job of their own.
        session.sql(statement)
    finally:
        if metadata is not None:
            session.conf.unset(USER_METADATA)
        session.catalog.dropTempView(view)
