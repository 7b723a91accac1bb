"""What brings the first records of a table back where a job asks for all of them, and bronze has given those to the backup.

That is a restore, which lies above the resources: the program that is started says here once how it is done. Without it the
job's own error stands, which names the command.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from cdc_assets.clients.platform import Platform
    from spark.errors import BronzeExpiredError

BringBack: TypeAlias = "Callable[[Platform, BronzeExpiredError], bool]"
"""Whether they are there afterwards, so that the job is to be run again."""
_GIVEN: list[BringBack] = []


def on_expired(bring_back: BringBack) -> None:
    """From now on, in this process."""
    _GIVEN[:] = [bring_back]


def bring_back_expired(platform: Platform, error: BronzeExpiredError) -> bool:
    """False where nobody has said how."""
    return any(bring_back(platform, error) for bring_back in _GIVEN)
