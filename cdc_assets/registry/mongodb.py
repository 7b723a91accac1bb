"""Where a MongoDB replica set or sharded cluster is. A collection is named `database.collection`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from cdc_assets.references import EnvRef, SecretRef
from cdc_assets.registry.declared import DatabaseKind


class MongoDb(DatabaseKind):
    """Hosts may be `{env: NAME}`, as `host:port,host:port`. The password is a secret and never part of an address.
    Experimental: not run against a server.

    `images` is what an update carries. With `full` the document is looked up, and may be newer than the change. With
    `with_pre_image` it also has the document as it was, which deletes need for anything but the key. The collections must
    then have changeStreamPreAndPostImages (preflight).
    """

    kind: Literal["mongodb"]
    hosts: str | EnvRef
    replica_set: str | None = None
    user: str | EnvRef
    password: SecretRef
    auth_source: str = Field(default="admin", min_length=1)
    tls: bool = False
    images: Literal["full", "with_pre_image"] = "full"
