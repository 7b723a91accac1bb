"""The connector that works beside the running one for a while, and how nothing of it is left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.onboarding.state import Facts

if TYPE_CHECKING:
    from cdc_assets.onboarding.work import Work


def remove_beside(work: Work) -> Facts:
    """The temporary connector is gone, with its offsets and whatever else its kind has."""
    connect, name = work.platform.core_connect(), names.temporary(names.connector_name(work.after))
    if connect.config(name) is not None:
        connect.stop(name)
        connect.reset_offsets(name)
        connect.delete(name)
    return {"connector": name, **work.kind.cleared(work)}
