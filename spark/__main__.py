"""One job from the command line: `cdc spark-submit spark/__main__.py --job bronze|silver|history|ledger|stream --spec FILE`.

Prints the JobResult as one JSON line on stdout; a stream prints one for each commit before it. Exit code 1 and one line on
stderr when the job fails.
"""

from __future__ import annotations

import os
import sys

if __package__ in (None, ""):
    # Run by its path: Python has put this folder first, and `types` in it hides Python's own, which almost every module
    # needs. So until the folder that holds the package has taken its place, nothing is imported but what is loaded anyway.
    _here = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120
    _root = _here
    while os.path.exists(os.path.join(_root, "__init__.py")):  # noqa: PTH110, PTH118
        _root = os.path.dirname(_root)  # noqa: PTH120
    sys.path[:] = [_root, *(folder for folder in sys.path if os.path.realpath(folder) != _here)]

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark.specs import JobResult


def main(arguments: list[str] | None = None) -> int:
    """Run one job; the exit code."""
    parser = argparse.ArgumentParser(prog="spark", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--job", required=True, choices=["bronze", "silver", "history", "ledger", "stream"])
    parser.add_argument("--spec", required=True, type=Path, help="JSON file, as `cdc spec` prints it")
    parser.add_argument("--remote", help="Spark Connect URL, such as sc://127.0.0.1:15002; else a session of this process")
    parser.add_argument("--master", help="such as local[2]; only where spark-submit does not set it")
    parser.add_argument("--jars", default="", help="comma-separated; only where spark-submit does not set them")
    parser.add_argument("--trigger", default="availableNow", help="of a stream: availableNow, or an interval: '5 seconds'")
    chosen = parser.parse_args(arguments)

    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    from spark.errors import SparkJobError
    from spark.silver.stream_job import settings
    from spark.table.spark_session import build_session, connect

    try:
        run_job = _work(chosen.job, chosen.spec.read_text(encoding="utf-8"), chosen.trigger)
        jars, more = [jar for jar in chosen.jars.split(",") if jar], settings() if chosen.job == "stream" else {}
        local = partial(build_session, "cdc", master=chosen.master, jars=jars, conf=more)
        session = connect(chosen.remote) if chosen.remote else local()
        try:
            result = run_job(session)
        finally:
            session.stop()
    except (SparkJobError, OSError, PySparkException, Py4JJavaError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        print(f"{chosen.job}: {lines[0] if lines else type(error).__name__}", file=sys.stderr)
        return 1
    _print(result)
    return 0


def _work(job: str, spec: str, trigger: str) -> Callable[[SparkSession], JobResult]:
    """The job with its spec, which is JSON."""
    from spark.bronze import append_job as bronze
    from spark.proof import ledger_job as ledger
    from spark.proof.ledger_contract import LedgerSpec
    from spark.silver import fold_job as silver
    from spark.silver import history_job as history
    from spark.silver import stream_job as stream
    from spark.specs import BronzeSpec, SilverSpec, StreamSpec

    if job == "stream":
        return partial(stream.run, spec=StreamSpec.from_json(spec), trigger=trigger, say=_print)
    if job == "bronze":
        return partial(bronze.run, spec=BronzeSpec.from_json(spec))
    if job in ("silver", "history"):
        return partial(silver.run if job == "silver" else history.run, spec=SilverSpec.from_json(spec))
    return partial(ledger.run, spec=LedgerSpec.from_json(spec))


def _print(result: JobResult) -> None:
    print(result.to_json(), flush=True)


if __name__ == "__main__":
    sys.exit(main())
