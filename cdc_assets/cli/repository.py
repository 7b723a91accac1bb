"""What only the repository has, and no wheel."""

from __future__ import annotations

from pathlib import Path

from cdc_assets.errors import CdcAssetsError

_ROOT = Path(__file__).parents[2]


def repository_with(folder: str, what: str, verb: str) -> Path:
    """The root of the repository.

    Raises:
        CdcAssetsError: this is none, and so has no such folder.
    """
    if not (_ROOT / folder).is_dir():
        raise CdcAssetsError(f"{what} are in the repository, and not in a wheel: clone it, then ./cdc {verb}")
    return _ROOT
