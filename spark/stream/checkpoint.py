"""Up to which offsets a batch of a query goes: Spark writes it into the checkpoint before the batch begins.

A file of https://github.com/apache/spark/blob/v4.0.0/sql/core/src/main/scala/org/apache/spark/sql/execution/streaming/OffsetSeqLog.scala
is a line with the version, one with settings, and one per source: Kafka's is `{"topic":{"0":12}}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from spark.errors import StreamCheckpointError

Ends = Mapping[str, Mapping[int, int]]
"""By topic and partition."""


def ends_of_batch(session: SparkSession, checkpoint: str, batch: int) -> Ends:
    """The offsets that the batch goes up to.

    Raises:
        StreamCheckpointError: the checkpoint does not say it in the form that we know.
    """
    place = f"{checkpoint}/offsets/{batch}"
    return _ends([row.value for row in session.read.text(place).collect()], place)


def newest_ends(session: SparkSession, checkpoint: str) -> Ends:
    """Those of the newest batch that the checkpoint knows; nothing where there is none."""
    from pyspark.errors import AnalysisException

    place = f"{checkpoint}/offsets"
    try:
        named = session.read.text(place).withColumn("batch", sf.regexp_extract(sf.input_file_name(), r"/(\d+)$", 1))
        found = named.where("batch <> ''").select(sf.max(sf.col("batch").cast("bigint")).alias("newest")).first()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return {}
    return {} if found is None or found.newest is None else ends_of_batch(session, checkpoint, found.newest)


def _ends(lines: list[str], place: str) -> Ends:
    if len(lines) != 3 or lines[0] != "v1":
        raise StreamCheckpointError(f"{place} is no file of offsets that is known here; remove the checkpoint: bronze knows more")
    # A batch in which the source had nothing yet.
    if lines[2] == "-":
        return {}
    return {topic: {int(p): int(end) for p, end in ends.items()} for topic, ends in json.loads(lines[2]).items()}
