"""The one Dagster resource: the outside systems (resources.platform), with their addresses as its config."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import PrivateAttr
from typing_extensions import override

from cdc_assets.defs.run_priority import yield_to_others
from cdc_assets.resources.expired import on_expired
from cdc_assets.resources.platform import Platform

if TYPE_CHECKING:
    from spark.errors import BronzeExpiredError


class PlatformResource(dg.ConfigurableResource, Platform):
    """Called `platform` by whatever asks for it; a field overrides what the environment says."""

    _clients: dict[str, Any] = PrivateAttr(default_factory=dict)
    _making: Any = PrivateAttr(default_factory=Lock)

    @override
    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        if context.run is not None:
            yield_to_others(context.run.tags)


def _bring_back(platform: Platform, error: BronzeExpiredError) -> bool:
    from cdc_assets.restore.past_records import bring_back_for_job

    return bring_back_for_job(platform, error)


on_expired(_bring_back)
