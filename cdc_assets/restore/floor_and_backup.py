"""Where bronze begins, beside where its backup begins: each of the two gives away a prefix, bronze first."""

from __future__ import annotations

from cdc_assets.backup.backup_base import BackupBase
from cdc_assets.backup.manifest import Manifest
from cdc_assets.errors import BackupError
from spark.delta.floor import Floor


def rises_above(floor: Floor, manifest: Manifest) -> bool:
    """Whether a batch lies behind what is gone of bronze."""
    return not Floor("", manifest.plan.epoch, manifest.positions).is_within(floor.epoch, floor.positions)


def refuse_unproven(base: BackupBase | None, floor: Floor | None) -> None:
    """Records of epochs that the backup does not keep can be proven by nothing, and what goes from bronze is a prefix.

    Raises:
        BackupError: bronze has such records.
    """
    if base is None:
        return
    if floor is None or not Floor("", base.last_epoch, base.positions).is_within(floor.epoch, floor.positions):
        raise BackupError(f"bronze has records of epochs before {base.epoch}, which its backup does not keep: all stay")
