"""What is wrong in the registry, each finding with its file, line, path, value and the accepted values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cdc_assets.errors import CdcAssetsError


@dataclass(frozen=True)
class RegistryFinding:
    """One thing wrong at one place."""

    file: Path
    line: int | None
    path: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else str(self.file)
        return f"{place}: {self.path + ': ' if self.path else ''}{self.message}"


class RegistryError(CdcAssetsError):
    """The registry cannot be used; holds every finding, not only the first."""

    def __init__(self, findings: Sequence[RegistryFinding]) -> None:
        super().__init__("\n".join(str(finding) for finding in findings))
        self.findings = tuple(findings)
