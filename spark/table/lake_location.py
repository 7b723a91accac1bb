"""Where a lake lies, and how its object store is reached: for delta-rs, the stores' own clients, PyArrow, and Spark.

A path names a folder of this machine or a prefix in a bucket. Addresses and keys are variables of the process, as AWS's and
Google's own tools take them. They stand in no spec, topic, log or metadata: each process that reads or writes has them,
executors included. A path that no lake can have is refused (JobRefusedError).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from spark.errors import JobRefusedError

STORES = {"s3a": "s3", "gs": "gcs"}
"""Schemes of object stores that a lake can lie in, as Spark writes them, each with the kind of its store."""
_MEANT = {"s3": "s3a://", "s3n": "s3a://", "gcs": "gs://"}


@dataclass(frozen=True)
class StorePlace:
    """A place in an object store; `prefix` has no slash at either end, and may be empty."""

    scheme: str
    bucket: str
    prefix: str

    @property
    def kind(self) -> str:
        """The kind of its store, `s3` or `gcs`."""
        return STORES[self.scheme]

    @property
    def key(self) -> str:
        """`bucket/prefix`, as PyArrow takes it."""
        return f"{self.bucket}/{self.prefix}".rstrip("/")


def is_local(path: str) -> bool:
    """Whether that is a folder of this machine."""
    return ":" not in path and path.startswith("/")


def is_object(path: str) -> bool:
    """Whether that lies in an object store which a lake can lie in."""
    return path.partition("://")[0] in STORES and "://" in path


def store_place(path: str) -> StorePlace:
    """The bucket and prefix of a path in an object store.

    Raises:
        JobRefusedError: it is none, or of a store that a lake cannot lie in.
    """
    scheme, separator, rest = path.partition("://")
    bucket, _, prefix = rest.partition("/")
    if not separator or scheme not in STORES:
        meant = f"; write {_MEANT[scheme]}{rest}" if scheme in _MEANT else ""
        schemes = ", ".join(f"{name}://" for name in STORES)
        raise JobRefusedError(f"CDC_LAKE: no lake can lie at {path}{meant}: it is a folder, or begins with {schemes}")
    parts = prefix.strip("/").split("/") if prefix.strip("/") else []
    if not bucket or any(folder in ("", ".", "..") for folder in parts) or set("?#@\\") & set(rest):
        raise JobRefusedError(f"CDC_LAKE: {path} names no bucket and prefix; write {scheme}://bucket/prefix")
    return StorePlace(scheme, bucket, "/".join(parts))


AWS_VARIABLES = (
    *("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
)
GOOGLE_VARIABLES = ("STORAGE_EMULATOR_HOST", "GOOGLE_APPLICATION_CREDENTIALS")
"""What a client of such a store is made by."""
DEFAULT_REGION = "us-east-1"
KEY_HEADER = "X-CDC-Key"
"""By which Hadoop's connector tells the key that the address of the stack's own GCS has as its path: in uploads it forgets it."""
GOOGLE = "https://storage.googleapis.com"
CONNECT_SECONDS, ANSWER_SECONDS = 10, 60
_SMALL_ANSWER_SECONDS = 15
"""For what our own client asks: commits, listings, claims. It asks up to five times, and a lease waits for one minute."""
_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"


class GcsAccess(NamedTuple):
    """A client of a GCS; a session of requests with its login, for what the client does not tell; and the address of both."""

    client: Any
    session: Any
    url: str


def endpoint_of(environment: Mapping[str, str] = os.environ) -> str | None:
    """The address of an S3 that is not AWS's default one."""
    return environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or None


def region_of(environment: Mapping[str, str] = os.environ) -> str:
    """The bucket's region; of a store that has none, any."""
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or DEFAULT_REGION


def gcs_url(environment: Mapping[str, str] = os.environ) -> str:
    """The address of the GCS, without a slash at its end."""
    return (environment.get("STORAGE_EMULATOR_HOST") or GOOGLE).rstrip("/")


def without_key(text: str, url: str) -> str:
    """A message of a client without the path of the GCS's address: the stack's own endpoint has its key there."""
    address = urlsplit(url)
    return text.replace(url, f"{address.scheme}://{address.netloc}") if address.path else text


def asks_for_login(url: str) -> bool:
    """Whether that GCS does: an emulator, which is reached by plain http, does not."""
    return not url.startswith("http://")


def delta_options(path: str, environment: Mapping[str, str] = os.environ) -> dict[str, str] | None:
    """What delta-rs needs besides the keys, which it takes from the environment itself; None for a local disk."""
    if not is_object(path):
        return None
    if store_place(path).kind == "gcs":
        # delta-rs only reads there: its puts go by the XML interface, whose conditions the embedded endpoint ignores.
        url = gcs_url(environment)
        if asks_for_login(url):
            return {"google_base_url": url} if url != GOOGLE else {}
        return {"google_base_url": url, "google_skip_signature": "true", "allow_http": "true"}
    options = {"AWS_REGION": region_of(environment), "aws_conditional_put": "etag"}
    if endpoint := endpoint_of(environment):
        options |= {"AWS_ENDPOINT_URL": endpoint}
        options |= {"AWS_ALLOW_HTTP": "true"} if endpoint.startswith("http://") else {}
    return options


def spark_conf(path: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Settings of a Spark server for a lake at the path: its driver and executors take the keys from their environment."""
    if not is_object(path):
        return {}
    if store_place(path).kind == "gcs":
        return _spark_gcs(gcs_url(environment))
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
    if not is_object(path) or store_place(path).kind != "s3":
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
            read_timeout=_SMALL_ANSWER_SECONDS,
        ),
    )


def gcs_access(url: str = "") -> GcsAccess:
    """The lake's GCS, or the one at `url`. Credentials come by Google's own chain; the project counts for new buckets alone.

    Raises:
        google.auth.exceptions.GoogleAuthError: there are none.
    """
    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.auth.transport.requests import AuthorizedSession
    from google.cloud import storage

    url = url.rstrip("/") or gcs_url()
    credentials: Any = AnonymousCredentials()
    project = "cdc"
    if asks_for_login(url):
        credentials, default_project = google.auth.default(scopes=[_SCOPE])
        project = default_project or project
    client = storage.Client(project=project, credentials=credentials, client_options={"api_endpoint": url})
    return GcsAccess(client, AuthorizedSession(credentials), url)


def arrow_filesystem(path: str, environment: Mapping[str, str] = os.environ) -> Any:
    """PyArrow's own file system, whose root is the folder at the path.

    Written in C++: a file system in Python is called by PyArrow's threads even while the interpreter ends, which aborts it
    (delta-io/delta-rs#2184).
    """
    import pyarrow.fs as fs

    if not is_object(path):
        return fs.SubTreeFileSystem(path, fs.LocalFileSystem())
    location = store_place(path)
    store = _arrow_gcs(gcs_url(environment)) if location.kind == "gcs" else _arrow_s3(environment)
    return fs.SubTreeFileSystem(location.key, store)


def _arrow_s3(environment: Mapping[str, str]) -> Any:
    import pyarrow.fs as fs

    options: dict[str, Any] = {"region": region_of(environment)}
    if endpoint := endpoint_of(environment):
        scheme, _, address = endpoint.partition("://")
        options |= {"scheme": scheme, "endpoint_override": address.rstrip("/")}
    return fs.S3FileSystem(connect_timeout=CONNECT_SECONDS, request_timeout=ANSWER_SECONDS, **options)


def _arrow_gcs(url: str) -> Any:
    import pyarrow.fs as fs

    scheme, _, address = url.partition("://")
    return fs.GcsFileSystem(
        anonymous=not asks_for_login(url),
        scheme=scheme,
        endpoint_override=address,
        retry_time_limit=timedelta(seconds=ANSWER_SECONDS),
    )


def _spark_gcs(url: str) -> dict[str, str]:
    address = urlsplit(url)
    is_ours = address.path and not asks_for_login(url)
    root = f"{address.scheme}://{address.netloc}" if is_ours else url
    return {
        "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
        "spark.hadoop.fs.gs.storage.root.url": f"{root}/",
        **({f"spark.hadoop.fs.gs.storage.http.headers.{KEY_HEADER}": address.path.removeprefix("/")} if is_ours else {}),
        "spark.hadoop.fs.gs.auth.type": "APPLICATION_DEFAULT" if asks_for_login(url) else "UNAUTHENTICATED",
        "spark.delta.logStore.gs.impl": "io.delta.storage.GCSLogStore",
    }
