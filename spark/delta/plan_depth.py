"""Plans that are not too deep to be sent.

Spark Connect's messages nest 100 levels at most (google.protobuf's limit, DecodeError "Error parsing message with type
'spark.connect.Relation'"), and each step of a DataFrame is one. The history of a table whose columns have changed took more.
"""

from __future__ import annotations

import uuid

from pyspark.sql import DataFrame


def cut_plan(frame: DataFrame) -> DataFrame:
    """The same rows by a view of the session: the server keeps what it was made of; nothing is computed."""
    view = f"cdc_plan_{uuid.uuid4().hex}"
    frame.createTempView(view)
    return frame.sparkSession.table(view)
