"""The one Dagster resource: the outside systems, with their addresses as its config.

With it a run gets its priority: one that nobody waits for (counts, comparisons, ledgers, maintenance, backups) yields to those
that carry changes. On two cores under 1,000 transactions a second one comparison of counts took a core for 20 seconds, and a
change on its way to silver waited for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import PrivateAttr
from typing_extensions import override

from cdc_assets.clients.expired_records import on_expired
from cdc_assets.clients.platform import Platform
from cdc_assets.defs.instance_runs import BACKED_UP

if TYPE_CHECKING:
    from spark.errors import BronzeExpiredError

_FORKS_OF = "cdc_assets.stack.run_preload"
"""Only a process that was forked for one run has this module."""
_NICENESS = 10


def yield_to_others(tags: Mapping[str, str]) -> None:
    """Lower the priority of this process, where it is a background run's own: of a schedule, or of a backup."""
    is_background = "dagster/schedule_name" in tags or BACKED_UP.tag in tags
    if _FORKS_OF in sys.modules and is_background:
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)


class PlatformResource(dg.ConfigurableResource, Platform):
    """Called `platform` by whatever asks for it; a field overrides what the environment says."""

    _clients: dict[str, Any] = PrivateAttr(default_factory=dict)
    _making: Any = PrivateAttr(default_factory=Lock)

    @override
    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        if context.run is not None:
            yield_to_others(context.run.tags)


def _bring_back(platform: Platform, error: BronzeExpiredError) -> bool:
    from cdc_assets.recovery.past_records import bring_back_for_job

    return bring_back_for_job(platform, error)


on_expired(_bring_back)
