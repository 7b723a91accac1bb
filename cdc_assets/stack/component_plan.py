"""Which components run: the whole stack less what the user has an address for.

Ports and the number of brokers are remembered in config.json.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cdc_assets.registry import settings
from cdc_assets.registry.durable_file import replace_json
from cdc_assets.stack.component import Component, Site
from cdc_assets.stack.components.connect_worker import ConnectWorker
from cdc_assets.stack.components.dagster_services import WEBSERVER, DagsterCode, DagsterDaemon, DagsterWebserver
from cdc_assets.stack.components.kafka_broker import KafkaBroker
from cdc_assets.stack.components.object_stores import GcsEndpoint, S3Endpoint
from cdc_assets.stack.components.postgres_server import Postgres
from cdc_assets.stack.components.spark_cluster import WORKERS, SparkMaster, SparkWorker
from cdc_assets.stack.components.spark_connect_server import SparkConnect
from cdc_assets.stack.declared_needs import buckets, java_modules_needed, jmx_sets, lake_sets, needing_drivers, plugins
from cdc_assets.stack.home import Home, read_json
from cdc_assets.stack.loopback import assign, own_address
from cdc_assets.stack.runtimes import SYSTEM, java, java_having
from cdc_assets.stack.stack_errors import StackError
from spark.errors import quantity

# An address in the environment means: use that one. (MirrorMaker's cluster is needed only where a worker of ours runs.)
EXTERNAL = (
    "CDC_POSTGRES_HOST",
    "CDC_CORE_BOOTSTRAP",
    "CDC_LAKE_BOOTSTRAP",
    "CDC_CORE_LOGIN",
    "CDC_LAKE_LOGIN",
    "CDC_CORE_CONNECT",
    "CDC_LAKE_CONNECT",
    "CDC_CORE_CONNECT_LOGIN_FILE",
    "CDC_LAKE_CONNECT_LOGIN_FILE",
    "CDC_CONNECT_SECRETS",
    settings.CONNECT_BOUND,
    "CDC_SPARK_REMOTE",
    "CDC_SPARK_TOKEN_FILE",
    "CDC_DAGSTER_URL",
    "AWS_ENDPOINT_URL_S3",
    "STORAGE_EMULATOR_HOST",
)
_OF_CORES = re.compile(r"CDC_CORE_\w+_(BOOTSTRAP|LOGIN|CONNECT|CONNECT_LOGIN_FILE)")
"""Of core clusters that sources name: they are never ours (docs/how-to/core-clusters.md)."""
SPARKS = ("local", "standalone")
"""One JVM; or a master and workers that start executors of their own."""
_OWN_WORKER = "CDC_CORE_CONNECT=http://… ./cdc up"
_KEYS = {
    "CDC_CORE_CONNECT_LOGIN_FILE": "CDC_CORE_CONNECT",
    "CDC_LAKE_CONNECT_LOGIN_FILE": "CDC_LAKE_CONNECT",
    "CDC_CONNECT_SECRETS": "CDC_CORE_CONNECT",
    settings.CONNECT_BOUND: "CDC_CORE_CONNECT",
    "CDC_SPARK_TOKEN_FILE": "CDC_SPARK_REMOTE",
}


def components(site: Site) -> list[Component]:
    """All components of this stack, in an order in which each comes after those it needs."""
    external = site.external
    chosen: list[Component] = []
    # Spark first: its warm-up is the longest way, and it needs nobody.
    if "CDC_SPARK_REMOTE" not in external:
        if site.is_standalone:
            chosen += [SparkMaster(site), *(SparkWorker(site, name) for name in WORKERS)]
        chosen.append(SparkConnect(site))
    if "CDC_POSTGRES_HOST" not in external:
        chosen.append(Postgres(site))
    for cluster in ("core", "lake"):
        if f"CDC_{cluster.upper()}_BOOTSTRAP" not in external:
            chosen += [KafkaBroker(site, cluster, node) for node in range(1, site.brokers + 1)]
    chosen += [ConnectWorker(site, c) for c in ("core", "lake") if f"CDC_{c.upper()}_CONNECT" not in external]
    if "AWS_ENDPOINT_URL_S3" not in external:
        chosen.append(S3Endpoint(site))
    if "STORAGE_EMULATOR_HOST" not in external and site.buckets.get("gcs"):
        chosen.append(GcsEndpoint(site))
    if "CDC_DAGSTER_URL" not in external:
        chosen += [DagsterCode(site), DagsterWebserver(site), DagsterDaemon(site)]
    return chosen


def jar_sets() -> tuple[str, ...]:
    """The sets that the components of this stack read."""
    return ("kafka", *plugins(), "spark", *lake_sets(), *jmx_sets(), "s3proxy")


def external_addresses(home: Home, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Addresses that the user has set, as opposed to those that `cdc env` has put there from our own stack."""
    given_before = read_json(home.config).get("external", {})
    ours = {k: v for k, v in read_json(home.stack).get("environment", {}).items() if given_before.get(k) != v}
    names = [*EXTERNAL, *sorted(name for name in environment if _OF_CORES.fullmatch(name) and name not in EXTERNAL)]
    return {name: environment[name] for name in names if environment.get(name) and environment[name] != ours.get(name)}


def choose(
    home: Home, *, brokers: int | None = None, spark: str | None = None, environment: Mapping[str, str] = os.environ
) -> Site:
    """Decide for this start, and remember it.
    Raises StackError: see `loopback.assign`; StackError: when the number of brokers is another one than the data was made with,
    or a source is of a kind whose connector needs a vendor's driver or a whole JDK, or a Spark of ours is asked for beside one of
    yours."""
    remembered = read_json(home.config)
    count = _count_of_brokers(home, brokers, remembered)
    external = external_addresses(home, environment)
    chosen_spark = _kind_of_spark(spark, remembered, external)
    for cluster in ("CORE", "LAKE"):
        if f"CDC_{cluster}_LOGIN" in external and f"CDC_{cluster}_BOOTSTRAP" not in external:
            reason = f"CDC_{cluster}_LOGIN is for a Kafka of yours: the embedded one has its own"
            raise StackError("kafka", reason, f"set CDC_{cluster}_BOOTSTRAP too, or unset CDC_{cluster}_LOGIN; then ./cdc up")
    for key, address in _KEYS.items():
        if key in external and address not in external:
            reason = f"{key} is for a server of yours: the embedded one has its own"
            raise StackError("up", reason, f"set {address} too, or unset {key}; then ./cdc up")
    if "CDC_CORE_CONNECT" not in external:
        _refuse_connectors()
    draft = Site(home, {}, count, external, buckets=buckets(), spark=chosen_spark, jmx=bool(jmx_sets()))
    names = [port for component in components(draft) for port in component.ports]
    remembered_ports = remembered.get("ports", {})
    hosts = {WEBSERVER: own_address(WEBSERVER, remembered.get("hosts", {}).get(WEBSERVER), environment=environment)}
    ports = assign(names, remembered_ports, hosts=hosts, environment=environment)
    site = replace(draft, ports=ports, hosts=hosts, plugins=plugins(), logins=True)
    chosen = {
        "brokers": count,
        "ports": {**remembered_ports, **ports},
        "hosts": hosts,
        "external": external,
        "spark": chosen_spark,
    }
    replace_json(home.config, {**chosen, "jmx": site.jmx, "plugins": site.plugins, "buckets": site.buckets})
    return site


def _refuse_connectors() -> None:
    """Those of the declared sources that the embedded worker cannot run, or would run to the harm of the rows."""
    drivers = needing_drivers()
    if drivers:
        reason = f"a source of kind {', '.join(drivers)} needs its vendor's driver, which is under the vendor's own licence"
        accept = f"CDC_VENDOR_DRIVERS={','.join(drivers)} ./cdc up accepts it and fetches the driver"
        raise StackError("core-connect", reason, f"{accept}; or {_OWN_WORKER}, a worker that has both")
    needed = java_modules_needed()
    if needed and java_having(needed.values()) is None:
        kinds, modules = ", ".join(needed), ", ".join(sorted({*needed.values()}))
        reason = (
            f"{java()} lacks {modules}, and so does each Java on the PATH and in {SYSTEM}: snapshots of kind {kinds} would have "
            "U+FFFD for letters beyond ASCII, without an error"
        )
        mend = "install a whole Java, 17 or newer (Debian, Ubuntu: apt-get install openjdk-17-jre-headless), or name one "
        raise StackError("core-connect", reason, f"{mend}(JAVA_HOME=… ./cdc up); or {_OWN_WORKER}, a worker on one")


def load(home: Home) -> Site:
    """The site as it was chosen."""
    config = read_json(home.config)
    declared = tuple(config["plugins"] or plugins()), config["buckets"] or buckets()
    kind = spark_of(home)
    return Site(
        home,
        config["ports"],
        config["brokers"],
        config["external"],
        *declared,
        logins=True,
        spark=kind,
        jmx=config["jmx"],
        hosts=config["hosts"],
    )


def spark_of(home: Home) -> str:
    """The kind of Spark that was chosen last, `local` or `standalone`."""
    return str(read_json(home.config).get("spark", SPARKS[0]))


def _count_of_brokers(home: Home, asked: int | None, remembered: Mapping[str, Any]) -> int:
    count = asked or remembered.get("brokers", 1)
    if count != remembered.get("brokers", count):
        reason = f"the data in {home.root} was made with {quantity(remembered['brokers'], 'broker')} per cluster, not {count}"
        raise StackError("kafka", reason, "./cdc down --wipe, then ./cdc up --brokers N")
    if count not in (1, 3):
        raise StackError("kafka", f"--brokers {count}: a cluster has 1 or 3 brokers", "./cdc up --brokers 3")
    return int(count)


def _kind_of_spark(asked: str | None, remembered: Mapping[str, Any], external: Mapping[str, str]) -> str:
    chosen = str(asked or remembered.get("spark", SPARKS[0]))
    if chosen not in SPARKS:
        raise StackError("spark-connect", f"--spark {chosen}: it is {' or '.join(SPARKS)}", "./cdc up --spark standalone")
    if asked == SPARKS[1] and "CDC_SPARK_REMOTE" in external:
        reason = "CDC_SPARK_REMOTE names a Spark of yours: no cluster of ours is started beside it"
        raise StackError("spark-master", reason, "unset CDC_SPARK_REMOTE, then ./cdc up --spark standalone")
    return chosen
