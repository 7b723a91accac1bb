"""PySpark's daemon, which forks the workers of tasks, with what they need imported once (spark.python.daemon.module).

A new worker would import it for half a second, and an idle one is ended after a minute. Nothing here starts a thread: a fork has
the one thread that forks.
"""

from __future__ import annotations

import importlib
import os

_MODULES = (
    "deltalake",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.json",
    "pyarrow.parquet",
    f"{__package__}.small_table_fold",
)


def main() -> None:
    """Import, then do as PySpark does."""
    # NumPy's BLAS starts threads at import, unless told to use one.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in _MODULES:
        importlib.import_module(name)
    from pyspark.daemon import manager

    manager()


if __name__ == "__main__":
    main()
