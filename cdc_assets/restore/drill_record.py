"""What the last drill of a source has found, kept beside the lake's tables: the check and `cdc drill` read it there.

The backup has it too: whoever begins from the bucket alone learns how long a restore takes.

<source>/last-drill    written over by each drill; no table's folder has a hyphen
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from cdc_assets import names
from cdc_assets.backup.layout import last_drill_key
from cdc_assets.backup.platform.document import seal, unseal
from cdc_assets.errors import BackupError
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.object_store import ObjectStore
from cdc_assets.resources.object_store.errors import MissingObjectError
from spark.lake.folder import open_folder

_NAME = "last.json"


@dataclass(frozen=True)
class DrilledTable:
    """`rows` of silver at `version`, and its history's; `differing` are those that only one of the two has."""

    table: str
    version: int | None = None
    rows: int = 0
    differing: int = 0
    problem: str = ""

    @property
    def is_equal(self) -> bool:
        """Whether the backup gives the table back."""
        return not (self.differing or self.problem)

    @property
    def sentence(self) -> str:
        """What people are told."""
        if self.is_equal:
            return f"{quantity(self.rows, 'row')} equal" if self.version is not None else "nothing to compare yet"
        return f"{quantity(self.differing, 'row')} of {self.rows} differ" if self.differing else self.problem


@dataclass(frozen=True)
class DrillPlan:
    """What a drill would restore of a table, and with which version of silver it would compare that."""

    table: str
    version: int | None = None
    records: int = 0
    objects: int = 0
    bytes: int = 0
    problem: str = ""

    def to_json(self, source: str) -> dict[str, Any]:
        """What people and programs are told."""
        return {"source": source, **asdict(self)}


@dataclass(frozen=True)
class Drill:
    """`at` in seconds since 1970; `bytes` of the backup's objects."""

    source: str
    at: float
    seconds: float
    bytes: int
    tables: tuple[DrilledTable, ...]

    @property
    def is_equal(self) -> bool:
        """Whether all tables are."""
        return all(table.is_equal for table in self.tables)

    @property
    def moment(self) -> str:
        """When it was, ISO 8601 in UTC."""
        return datetime.fromtimestamp(self.at, timezone.utc).isoformat(timespec="seconds")

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Drill:
        """Of what was noted.

        Raises:
            TypeError, KeyError: it is no such note.
        """
        return cls(**{**said, "tables": tuple(DrilledTable(**table) for table in said["tables"])})

    def to_json(self) -> dict[str, Any]:
        """What programs are told."""
        return {**asdict(self), "moment": self.moment, "minutes": round(self.seconds / 60, 2), "equal": self.is_equal}


def scratch_of(lake: str, source: BaseSource) -> str:
    """The lake that a source's drill restores into."""
    return f"{names.drills_path(lake, source)}/lake"


def note_drill(lake: str, source: BaseSource, drill: Drill) -> None:
    """Instead of the one before."""
    folder = open_folder(names.drills_path(lake, source))
    folder.make()
    folder.put(_NAME, json.dumps(asdict(drill)).encode())


def last_drill(lake: str, source: BaseSource) -> Drill | None:
    """None: there was none yet, or what it noted is not readable."""
    try:
        return Drill.of(json.loads(open_folder(names.drills_path(lake, source)).read(_NAME)))
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def keep_drill(store: ObjectStore, drill: Drill) -> None:
    """Note it in the backup as well, instead of the one before."""
    store.put(last_drill_key(drill.source), seal(asdict(drill)))


def drill_of_backup(store: ObjectStore, source: str) -> Drill | None:
    """The last one that the backup knows; None: of none.

    Raises:
        BackupError: the note is not as it was written.
        StoreError: the store cannot be asked.
    """
    key = last_drill_key(source)
    try:
        return Drill.of(unseal(store.get(key), key=key))
    except MissingObjectError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackupError(
            f"{key} is no note of a drill: {type(error).__name__}: {error}; cdc drill {source} writes it"
        ) from error
