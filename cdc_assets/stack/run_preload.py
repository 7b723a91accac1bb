"""What the runs of the embedded stack need, imported before they are forked; of no use to anybody else.

Only what starts no thread at import, for a fork has the one thread that forks: no Kafka client, no gRPC channel and no Delta
table is opened here. NumPy's BLAS starts threads at import, unless told to use one.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
import sys
import traceback

_MODULES = (
    "dagster._core.execution.api",
    "dagster._grpc.impl",
    "cdc_assets.stack.dagster_instance",
    "cdc_assets.definitions",
    "confluent_kafka.admin",
    "deltalake",
    "grpc",
    "pandas",
    "psycopg",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pymysql",
    "pyspark.sql.connect.functions",
    "pyspark.sql.connect.session",
    "delta.tables",
)


def preload() -> None:
    """Import each of them; one that fails is left to the run, whose error then says so where a user looks."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in _MODULES:
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001 - the user's definitions may raise anything
            print(f"cdc: {name} cannot be loaded before a run:", file=sys.stderr)
            traceback.print_exc()
    # Disabled by PySpark unless the variable is set; Dagster's logging, configured after it in a run, would enable it again.
    if "SPARK_CONNECT_LOG_LEVEL" not in os.environ:
        logging.getLogger("pyspark.sql.connect.logging").setLevel(logging.CRITICAL + 1)
    # What is here stays: a collection in a run would touch it, and copy its pages.
    gc.collect()
    gc.freeze()


preload()
