"""The connector that works beside the running one for a while, and how nothing of it is left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.onboarding.state import Facts

if TYPE_CHECKING:
    from cdc_assets.onboarding.work import OnboardingWork
    from cdc_assets.resources.connect import ConnectClient

# Connect asks the plugin and the database about a config before it keeps it: a PUT whose sender was killed is kept after that.
_IN_FLIGHT_SECONDS, _POLL_SECONDS = 5.0, 0.25


def remove_beside(work: OnboardingWork) -> Facts:
    """The temporary connector is gone, with its offsets and whatever else its kind has."""
    connect, name = work.core_connect, names.temporary(names.connector_name(work.after))
    if _is_there(connect, name):
        connect.stop(name)
        connect.reset_offsets(name)
        connect.delete(name)
    return {"connector": name, **work.kind.clear_leftovers(work)}


def _is_there(connect: ConnectClient, name: str) -> bool:
    until = time.monotonic() + _IN_FLIGHT_SECONDS
    while connect.config(name) is None:
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_SECONDS)
    return True
