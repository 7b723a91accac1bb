"""The Spark that a session runs on: one JVM or a cluster, how many tasks it runs at a time, and how rows are kept there."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pyspark import StorageLevel

from spark.delta.server_conf import sizes_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
    found = _OF_SESSION.get(session)
    if found is None:
        found = _OF_SESSION[session] = _ask(session, settings_of(session, _ASKED))
    return found


def ask_server(session: SparkSession, remote: str) -> SparkCluster:
    """The one of a new session of Spark Connect; each server is asked once a minute, since executors come and go.

    What is a minute old may cost time, and no row: a lost block is computed again, whoever kept it.
    """
    when, found = _OF_SERVER.get(remote, (0.0, None))
    if found is None or time.monotonic() - when > _FRESH_SECONDS:
        found = _ask(session, settings_of(session, _ASKED))
        _OF_SERVER[remote] = time.monotonic(), found
    _OF_SESSION[session] = found
    return found


def compute_once(rows: DataFrame) -> DataFrame:
    """The rows, computed now, and read as they are from then on; by `rows.transform(compute_once)`.

    In one JVM by Spark's localCheckpoint. On a cluster each block of it is on two executors, so that one may be lost; or in files
    of `spark.checkpoint.dir`, where the server names that. What is lost all the same is told by failures.is_lost_work.
    """
    place = cluster_of(rows.sparkSession)
    if place.is_one_jvm:
        return rows.localCheckpoint()
    if place.checkpoint_folder:
        return rows.checkpoint()
    return rows.localCheckpoint(storageLevel=StorageLevel.MEMORY_AND_DISK_2)


def settings_of(session: Any, names: Sequence[str]) -> dict[str, str]:
    """Those of these settings that the server has, by one call. A default of ours would have to be of the setting's type."""
    if getattr(session, "_sc", None) is not None:
        said = session.sparkContext.getConf()
        return {name: value for name in names if (value := said.get(name, session.conf.get(name, None)))}
    from pyspark.sql.connect.proto import base_pb2

    asked = base_pb2.ConfigRequest.GetOption(keys=names)
    answer = session.client.config(base_pb2.ConfigRequest.Operation(get_option=asked))
    return {key: value for key, value in answer.pairs if value}


def _ask(session: SparkSession, said: Mapping[str, str]) -> SparkCluster:
    master = said.get(_MASTER) or "unknown"
    given = re.fullmatch(r"local\[(\d+)\]", master)
    slots = int(given[1]) if given else _slots(session)
    return SparkCluster(master, slots, said.get(CHECKPOINT_FOLDER) or "")


def _slots(session: Any) -> int:
    context = getattr(session, "_sc", None)
    if context is not None:
        return int(context.defaultParallelism)
    found = _SPLITS.search(session.range(1)._explain_string())
    return int(found[1]) if found else TWO_CORES.slots
