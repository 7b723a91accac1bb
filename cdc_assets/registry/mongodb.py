"""Where a MongoDB replica set or sharded cluster is. A collection is named `database.collection`."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field

from cdc_assets.references import EnvRef, SecretRef
from cdc_assets.registry.addresses import Host
from cdc_assets.registry.declared import DatabaseKind
from cdc_assets.registry.tls import is_here


class MongoDb(DatabaseKind):
    """Hosts may be `{env: NAME}`, as `host:port,host:port`. The password is a secret and never part of an address.
    Experimental: live on a compatible server (SecantusDB), and not on MongoDB's own.

    `images` is what an update carries. With `full` the document is looked up, and may be newer than the change. With
    `with_pre_image` it also has the document as it was, which deletes need for anything but the key. The collections must
    then have changeStreamPreAndPostImages (preflight).
    """

    ADDRESS = ("hosts",)

    kind: Literal["mongodb"]
    hosts: Host | EnvRef
    replica_set: str | None = None
    user: str | EnvRef
    password: SecretRef
    auth_source: str = Field(default="admin", min_length=1)
    tls: bool | None = None
    images: Literal["full", "with_pre_image"] = "full"

    def key_refusal(self, keys: tuple[str, ...]) -> str:
        """A collection's key is always the same."""
        return "" if keys == ("_id",) else "the key of a MongoDB collection is _id"

    @property
    def signals_take_patterns(self) -> bool:
        """It expands a pattern only to collections that it has met, and takes any other for a name as it is.

        MongoDbIncrementalSnapshotChangeEventSource.expandAndDedupeDataCollectionIds, 3.6.1.
        """
        return False

    def encrypts(self, hosts: str) -> bool:
        """As declared, else unless all of them are addresses of this machine. Certificates are verified then."""
        return not all(map(is_here, map(_without_port, hosts.split(",")))) if self.tls is None else self.tls


def _without_port(host: str) -> str:
    """An IPv6 address with a port is in brackets."""
    return re.sub(r"(?<=\]):\d+$|^([^:]*):\d+$", r"\1", host.strip())
