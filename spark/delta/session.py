"""Spark sessions with Delta; their sizes follow the server (spark.delta.cluster)."""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5

from pyspark.sql import SparkSession

from spark.delta.cluster import ask_server, cluster_of
from spark.delta.server_conf import server_conf, session_conf

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

    from spark.delta.channel import SharedChannel

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
    which is shared too (spark.delta.channel). Sessions are also closed when they are collected as garbage, which happens
    anywhere: in the middle of another session's call that fails with "cannot schedule new futures after shutdown", or in a
    thread of the pool, and then all calls fail from then on.
    """

    def close() -> None:
        client._closed = True

    client.close = close
    # It keeps each client until the process ends, 25 kB of it, for the models of Spark ML that a session may have on the server
    # (pyspark 4.0.4, client/core.py): `cdc stream` opens two sessions a cycle, and no session of ours has a model.
    atexit.unregister(client._cleanup_ml)
