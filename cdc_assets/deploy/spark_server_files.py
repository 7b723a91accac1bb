"""What a Spark Connect server of yours is started with: settings, jars by hash, Python packages for its executors.

Nothing here depends on the registry or the deployment: one server carries every source. Sizes are not in it: each session sets
them by what the server has (spark.table.spark_session).
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version

from cdc_assets.stack.jars.locked_jars import read_lock
from spark import silver
from spark.table.server_conf import server_conf, session_conf
from spark.table.server_facts import PACKAGES

_UI = "spark.ui.enabled"
"""Yours to decide."""
_PACKAGED = ("delta-spark_", "spark-sql-kafka-", "spark-avro_")
"""Jars that bring the others along (`spark.jars.packages`)."""


def spark_files() -> dict[str, str]:
    """The target's files by path: spark-defaults.conf, jars.sha256 and requirements.txt."""
    return {
        # As `sha256sum --check` takes them, in a folder of a Maven repository.
        "spark/jars.sha256": "".join(f"{jar.sha256}  {jar.path}\n" for jar in read_lock().sets["spark"]),
        "spark/requirements.txt": _requirements(),
        "spark/spark-defaults.conf": _settings(),
    }


def _settings() -> str:
    packages = ",".join(jar.gav for jar in read_lock().sets["spark"] if jar.gav.split(":")[1].startswith(_PACKAGED))
    own = {
        **{name: value for name, value in server_conf().items() if name not in {*session_conf(), _UI}},
        # Where spark.checkpoint.dir is set: what is kept there goes when nobody reads it any more.
        "spark.cleaner.referenceTracking.cleanCheckpoints": "true",
        "spark.connect.grpc.maxInboundMessageSize": str(256 * 1024 * 1024),
        "spark.jars.packages": packages,
        "spark.python.daemon.module": f"{silver.__name__}.worker_daemon",
    }
    header = "# Spark Connect for cdc_assets, beside your own settings. Sessions set the rest themselves, sizes too.\n"
    return header + _lines(own)


def _requirements() -> str:
    major, minor, _ = platform.python_version_tuple()
    header = (
        f"# Of the executors' Python {major}.{minor}, which is the client's. It also needs cdc_assets itself, from the same\n"
        "# commit (docs/how-to/library.md). Without these each table costs a Spark job of its own.\n"
    )
    return header + "".join(f"{name}=={version(name)}\n" for name in sorted(PACKAGES))


def _lines(settings: Mapping[str, str]) -> str:
    return "".join(f"{name} {value}\n" for name, value in sorted(settings.items()))
