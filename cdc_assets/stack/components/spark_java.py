"""What every Java process of Spark is started with here: the packages that it opens, its jars, and what its tasks need of the
lake's store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cdc_assets.stack.components.gcs import GcsEndpoint
from cdc_assets.stack.components.s3 import S3Endpoint
from cdc_assets.stack.declared_needs import lake_root, lake_sets
from cdc_assets.stack.site import Site
from spark.lake.place import store_place
from spark.lake.store_options import spark_conf, spark_variables

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
    found = {name: value for name, value in os.environ.items() if name.startswith(_OF_STORES)}
    root = lake_root(site.home)
    return {**found, **_of_endpoint(site, root), **spark_variables(root)} if "://" in root else found


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
