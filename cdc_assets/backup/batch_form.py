"""What a batch of a backup may hold, and how its objects are laid out."""

from __future__ import annotations

from dataclasses import dataclass, field

from cdc_assets.backup.object_layout import ObjectLayout
from cdc_assets.registry.source_settings import Backup


@dataclass(frozen=True)
class BatchForm:
    """A batch ends before either bound, unless one window of offsets is larger. Batches that were begun keep their own layout.

    Bytes are of keys and values: a batch's columns are in memory, twice while they are sorted. A row group of bronze is 32 to 40
    MB of them, and is read for each batch that touches it.
    """

    layout: ObjectLayout = field(default_factory=ObjectLayout)
    max_records: int = 200_000
    max_bytes: int = 64 << 20

    @classmethod
    def of(cls, backup: Backup | None) -> BatchForm:
        """As a source declares it."""
        return cls(ObjectLayout(backup.hours, backup.values)) if backup is not None else cls()
