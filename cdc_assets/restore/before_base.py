"""Points that lie before what a backup keeps: a restore to one would be another table than that of the time, so it is refused."""

from __future__ import annotations

from datetime import datetime

from cdc_assets.backup.backup_base import BackupBase
from cdc_assets.errors import RestoreError
from cdc_assets.restore.restore_point import AtPosition, AtTime, RestorePoint


def refuse_before_base(base: BackupBase | None, point: RestorePoint) -> None:
    """Nothing where the backup begins with its first manifest, or the point lies behind its base.

    Raises:
        RestoreError: naming the earliest moment that a restore can end at.
    """
    if base is None:
        return
    if isinstance(point, AtTime) and point.moment < datetime.fromisoformat(base.earliest):
        raise RestoreError(before_base(base, f"--to {point.text}"))
    if isinstance(point, AtPosition) and not point.has_epoch(base.epoch):
        raise RestoreError(before_base(base, f"--to {point.text}"))


def before_base(base: BackupBase, what: str) -> str:
    """The refusal, with the next command."""
    return (
        f"{what}: that is before what the backup of {base.source}/{base.table} keeps: it begins with epoch {base.epoch}, and the "
        f"earliest moment is {base.earliest} (backup.keep); nothing is changed. "
        f"Restore to that or later: cdc restore {base.source} {base.table} --to {base.earliest}"
    )
