"""Runs that nobody waits for yield to those that carry changes: counts, comparisons, ledgers, maintenance, backups.

On two cores under 1,000 transactions a second one comparison of counts took a core for 20 seconds, and a change on its way to
silver waited for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from cdc_assets.defs.sensors.recent_runs import BACKED_UP

_FORKS_OF = "cdc_assets.stack.preloaded"
"""Only a process that was forked for one run has this module."""
_NICENESS = 10


def is_background(tags: Mapping[str, str]) -> bool:
    """Whether a schedule asked for the run, or it makes backups."""
    return "dagster/schedule_name" in tags or BACKED_UP.tag in tags


def yield_to_others(tags: Mapping[str, str]) -> None:
    """Lower the priority of this process, where it is a background run's own."""
    if _FORKS_OF in sys.modules and is_background(tags):
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
