"""What maintenance is asked for one table, and what it tells: what it finds, means to do, and has done."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from spark.table.needed_versions import NamedVersion, Need
from spark.upkeep.file_rewrite import TableFigures
from spark.upkeep.log_expiry import WORK_SECONDS
from spark.upkeep.row_retention import OldRecords, OldWindows, SettledRecords

TWO_DAYS = 172_800.0


@dataclass(frozen=True)
class MaintenanceSpec:
    """What maintenance is asked for one table.

    time_travel: seconds for which older versions can be read. needs: versions that others still read, with all since.
    named: older versions that stay, each by itself; those between them may lose their files. needed_seconds: for how long any
    version may be needed, so that nobody's VACUUM takes younger files. work_seconds: for so long a file that no commit names
    may be a writer's. old_windows: rows of a ledger that go. old_records: rows of a change log. settled: rows of a quarantine.
    writers: the table by whose turn this one is written; its own where that is empty.
    """

    path: str
    time_travel: float = TWO_DAYS
    needs: tuple[Need, ...] = ()
    work_seconds: float = WORK_SECONDS
    old_windows: OldWindows | None = None
    named: tuple[NamedVersion, ...] = ()
    needed_seconds: float = 0.0
    old_records: OldRecords | None = None
    settled: SettledRecords | None = None
    writers: str = ""


@dataclass(frozen=True)
class MaintenancePlan:
    """What is to be done for a table: rows that go, files that are made one, commits and files that are removed.

    kept: from which version on everything stays, and why; kept_seconds: how long ago the commit after that was made.
    named: the oldest version that stays by itself. left: why nothing of it can be done here (then there are no figures).
    """

    figures: TableFigures | None
    rows: int = 0
    rewrite_files: int = 0
    checkpoint: bool = False
    expire_commits: int = 0
    remove_files: int = 0
    remove_bytes: int = 0
    kept: Need | None = None
    kept_seconds: float = 0.0
    named: NamedVersion | None = None
    left: str = ""

    @property
    def kept_from(self) -> str:
        """From which version on all stay, and which stay by themselves."""
        return _join_versions(self.kept, self.named)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be done."""
        return not (self.rows or self.rewrite_files or self.checkpoint or self.expire_commits or self.remove_files)

    def to_dict(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)


@dataclass(frozen=True)
class Maintained:
    """What was done for a table; `given_up` says of a step why it was not done this time. `plan` is what it needed before."""

    plan: MaintenancePlan | None = None
    after: TableFigures | None = None
    rows_removed: int = 0
    files_rewritten: int = 0
    files_written: int = 0
    checkpoint: bool = False
    commits_expired: int = 0
    files_removed: int = 0
    bytes_removed: int = 0
    kept: Need | None = None
    named: NamedVersion | None = None
    seconds: float = 0.0
    given_up: dict[str, str] = field(default_factory=dict)

    @property
    def kept_from(self) -> str:
        """From which version on all stay, and which stay by themselves."""
        return _join_versions(self.kept, self.named)

    def to_dict(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)


def _join_versions(*versions: Need | NamedVersion | None) -> str:
    return "; ".join(f"{version.version}: {version.reason}" for version in versions if version)
