"""Properties by which Delta itself keeps what others of ours still read.

Writers remove old commits by themselves, and do not know which of ours are needed. A VACUUM keeps what is younger than the
table's `delta.deletedFileRetentionDuration`, seven days without the property
(https://docs.delta.io/latest/delta-utility.html#remove-files-no-longer-referenced-by-a-delta-table).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from spark.errors import quantity

KEEP_LOG, KEEP_FILES = "delta.enableExpiredLogCleanup", "delta.deletedFileRetentionDuration"
_DAY = 86_400
_DELTAS_OWN_DAYS = 7


def properties_to_set(configuration: Mapping[str, str], needed_seconds: float) -> dict[str, str]:
    """Those that the table lacks, or has otherwise: files of a version that is needed for so long must stay."""
    days = max(_DELTAS_OWN_DAYS, math.ceil(needed_seconds / _DAY))
    wanted = {KEEP_LOG: "false"}
    # A checkpoint names what was removed for as long: more of it only where somebody asks for more.
    if days > _DELTAS_OWN_DAYS or KEEP_FILES in configuration:
        wanted[KEEP_FILES] = f"interval {quantity(days, 'day')}"
    return {name: value for name, value in wanted.items() if configuration.get(name) != value}
