"""What a session of Spark, and its server, are started with (settings that measured well, design §7).

It imports nothing of PySpark: the stack's supervisor, which starts a server, would keep 15 MB of it for good.
"""

from __future__ import annotations

_CORES_A_STATE_TASK, _MOST_STATE_TASKS = 4, 50


def sizes_for(slots: int) -> dict[str, str]:
    """Settings that follow from how many tasks run at a time.

    Delta replays a log in so many tasks: with one, small MERGEs went from 11 s to 1-3 s.
    """
    of_log = min(_MOST_STATE_TASKS, max(1, slots // _CORES_A_STATE_TASK))
    return {
        "spark.sql.shuffle.partitions": str(max(2, slots)),
        "spark.databricks.delta.snapshotPartitions": str(of_log),
    }


def session_conf(slots: int = 2) -> dict[str, str]:
    """Settings that belong to a session; the jobs rely on them for correctness (time zone, ANSI) and speed."""
    return {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        # By default `${x}` is replaced in the text of every statement, columns' names and labels of an enum included.
        "spark.sql.variable.substitute": "false",
        **sizes_for(slots),
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        "spark.sql.parquet.compression.codec": "zstd",
        # INT96 would wrap around before 1677 and has no statistics.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.json.enableExactStringParsing": "true",
        "spark.databricks.delta.skipRecordingEmptyCommits": "false",
        "spark.databricks.delta.properties.defaults.enableDeletionVectors": "false",
        "spark.databricks.delta.properties.defaults.checkpointInterval": "100",
    }


def server_conf() -> dict[str, str]:
    """What a Spark (Connect) server is started with: Delta, and the session settings as defaults."""
    return {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.ui.enabled": "false",
        # Delta's default for a local folder starts `readlink` as a process of its own, for each file of each commit (ADR 12).
        "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
        "spark.sql.adaptive.enabled": "true",
        # What a killed client had asked for is given up soon; the default is five minutes.
        "spark.connect.execute.manager.detachedTimeout": "30s",
        "spark.connect.execute.manager.maintenanceInterval": "10s",
        # The session of small tasks stays (task_session_id).
        "spark.connect.session.manager.defaultSessionTimeout": "3650d",
        **session_conf(),
    }
