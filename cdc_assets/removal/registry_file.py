"""The registry file of a source that is removed: put aside as `<file>.removed`, where a repeated command finds it.

No loader reads that name. So `cdc remove` can go on after a kill, or remove data later; renamed back, the source is declared.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cdc_assets.errors import RemovalError
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry_files.loader import REMOVED, load_source, load_sources


@dataclass(frozen=True)
class DeclaredIn:
    """A source and the file that declares it; `aside`: that file has been put aside."""

    source: BaseSource
    file: Path
    aside: bool


def find_declaration(folder: Path, name: str) -> DeclaredIn | None:
    """Of a source that is declared, or was until it was removed; None where no file names it.

    Raises:
        RegistryError: the registry cannot be read.
    """
    declared = {source.name for source in load_sources(folder)}
    if name in declared:
        files = sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")])
        return next(DeclaredIn(source, file, aside=False) for file in files if (source := load_source(file)).name == name)
    for file in sorted(folder.glob(f"*{REMOVED}")):
        if (source := load_source(file)).name == name:
            return DeclaredIn(source, file, aside=True)
    return None


def put_aside(found: DeclaredIn) -> DeclaredIn:
    """Rename the file, in one step.

    Raises:
        RemovalError: the folder cannot be written.
    """
    if found.aside:
        return found
    aside = found.file.with_name(found.file.name + REMOVED)
    try:
        found.file.replace(aside)
    except OSError as error:
        raise RemovalError(
            f"{found.file} cannot be renamed ({error.strerror}): take it out of the registry where you keep it, and give "
            "--keep registry"
        ) from error
    return DeclaredIn(found.source, aside, aside=True)
