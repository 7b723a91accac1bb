"""Which core cluster a source's topics are on: there may be several, and each is mirrored into the lake's."""

from __future__ import annotations

from pydantic import Field

from cdc_assets.registry.declared import Declared

CORE, LAKE = "core", "lake"


class OfCluster(Declared):
    """A source, by the Kafka cluster that its topics are on."""

    cluster: str = Field(
        default=CORE,
        pattern=r"^[a-z][a-z0-9_]{0,29}$",
        description="The core cluster of its topics. One of another name has its own addresses (docs/how-to/core-clusters.md).",
    )


def refuse_cluster(cluster: str, managed_by: str, *, is_captured: bool) -> None:
    """What cannot be there.

    Raises:
        ValueError: naming the key, and what to declare instead.
    """
    if is_captured and cluster == LAKE:
        raise ValueError("cluster: lake is where the copies go; a connector writes to a core cluster")
    if managed_by == "gitops" and cluster not in (CORE, LAKE):
        raise ValueError(f"cluster: {cluster}: a deployment by git has one core cluster; leave it out, or managed_by: cdc")
