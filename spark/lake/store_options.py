"""How a lake's object store is reached, from the environment alone: for delta-rs, boto3, PyArrow, and Spark.

Addresses and keys are variables of the process, as AWS's own tools take them. They stand in no spec, topic, log or metadata:
each process that reads or writes has them, executors included.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from spark.lake.place import is_object, store_place

DEFAULT_REGION = "us-east-1"
CONNECT_SECONDS, ANSWER_SECONDS = 10, 60


def endpoint_of(environment: Mapping[str, str] = os.environ) -> str | None:
    """The address of an S3 that is not AWS's default one."""
    return environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or None


def region_of(environment: Mapping[str, str] = os.environ) -> str:
    """The bucket's region; of a store that has none, any."""
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or DEFAULT_REGION


def delta_options(path: str, environment: Mapping[str, str] = os.environ) -> dict[str, str] | None:
    """What delta-rs needs besides the keys, which it takes from the environment itself; None for a local disk."""
    if not is_object(path):
        return None
    options = {"AWS_REGION": region_of(environment), "aws_conditional_put": "etag"}
    if endpoint := endpoint_of(environment):
        options |= {"AWS_ENDPOINT_URL": endpoint}
        options |= {"AWS_ALLOW_HTTP": "true"} if endpoint.startswith("http://") else {}
    return options


def spark_conf(path: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Settings of a Spark server for a lake at the path: its driver and executors take the keys from their environment."""
    if not is_object(path):
        return {}
    conf = {"spark.hadoop.fs.s3a.endpoint.region": region_of(environment)}
    if endpoint := endpoint_of(environment):
        conf |= {
            "spark.hadoop.fs.s3a.endpoint": endpoint,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": str(endpoint.startswith("https://")).lower(),
        }
    return conf


def spark_variables(path: str) -> dict[str, str]:
    """Variables of Spark's processes for a lake at the path. S3A 3.4.1 is older than the checksums that AWS's client now adds
    to each request by default, and stores that are not AWS's refuse some of them."""
    if not is_object(path):
        return {}
    return {"AWS_REQUEST_CHECKSUM_CALCULATION": "when_required", "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required"}


def s3_client(environment: Mapping[str, str] = os.environ) -> Any:
    """A boto3 client of the lake's S3."""
    from boto3.session import Session
    from botocore.config import Config

    # A session of its own: boto3's default one must not be used by several threads at a time.
    return Session().client(
        "s3",
        endpoint_url=endpoint_of(environment),
        region_name=region_of(environment),
        config=Config(
            s3={"addressing_style": "path"} if endpoint_of(environment) else {},
            retries={"mode": "standard", "max_attempts": 5},
            connect_timeout=CONNECT_SECONDS,
            read_timeout=ANSWER_SECONDS,
        ),
    )


def arrow_filesystem(path: str, environment: Mapping[str, str] = os.environ) -> Any:
    """PyArrow's own file system, whose root is the folder at the path.

    Written in C++: a file system in Python is called by PyArrow's threads even while the interpreter ends, which aborts it
    (delta-io/delta-rs#2184).
    """
    import pyarrow.fs as fs

    if not is_object(path):
        return fs.SubTreeFileSystem(path, fs.LocalFileSystem())
    options: dict[str, Any] = {"region": region_of(environment)}
    if endpoint := endpoint_of(environment):
        scheme, _, address = endpoint.partition("://")
        options |= {"scheme": scheme, "endpoint_override": address.rstrip("/")}
    store = fs.S3FileSystem(connect_timeout=CONNECT_SECONDS, request_timeout=ANSWER_SECONDS, **options)
    return fs.SubTreeFileSystem(store_place(path).key, store)
