"""The one Dagster resource: every outside system by a method (`platform_clients`).

Fields override what the environment says; a test passes a subclass that hands out fakes.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import dagster as dg
from pydantic import PrivateAttr

from cdc_assets.resources.platform_clients import PlatformClients


class Platform(dg.ConfigurableResource, PlatformClients):
    """Connect, Kafka, Spark, databases and object stores, by address; a login is the path of a file (spark.kafka.login)."""

    core_bootstrap: str | None = None
    lake_bootstrap: str | None = None
    core_login: str | None = None
    lake_login: str | None = None
    core_connect_url: str | None = None
    lake_connect_url: str | None = None
    spark_remote: str | None = None
    lake_root: str | None = None

    _clients: dict[str, Any] = PrivateAttr(default_factory=dict)
    # A source's checks run in threads, and boto3 makes one client at a time.
    _making: Any = PrivateAttr(default_factory=Lock)
