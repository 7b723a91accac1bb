"""The registry as a code server has loaded it, and what has become of a source's declaration since.

Runs read the copy, so a half-edited file stops nothing that runs. A run loads the definitions anew in a process of its own:
without the copy it would read whatever the folder holds in that second, tables that Dagster does not know yet, or a broken
file. The embedded stack names a folder for the copies by CDC_REGISTRY_KEPT; anywhere else the registry's own folder is read.
Changes are asked for at every tick, so that costs a few stats.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

from cdc_assets.registry import settings
from cdc_assets.registry.errors import RegistryError
from cdc_assets.registry.loader import REMOVED, load_source, load_sources, registry_files
from cdc_assets.registry.source_declaration import BaseSource, digest

Stamps = tuple[tuple[Path, int, int], ...]


def stamps_of(place: Path) -> Stamps:
    """When each file was written, and its size: a look at these costs microseconds."""
    files = registry_files(place) if place.is_dir() else [place]
    return tuple((file, stat.st_mtime_ns, stat.st_size) for file in files if file.is_file() for stat in [file.stat()])


def is_gone(source: str, place: Path) -> bool:
    """Whether the file or folder no longer declares the source; False where it cannot be read, since it may come back."""
    try:
        return source not in _digests(place, stamps_of(place))
    except RegistryError:
        return False


def change_of(source: str, loaded: str, place: Path) -> str:
    """Why definitions are older than the declaration that they were made of, as a sentence.

    Empty where the file or folder still declares the source with the digest `loaded`.
    """
    try:
        declared = _digests(place, stamps_of(place))
    except RegistryError as error:
        return f"the registry is broken, what was loaded before goes on; mend it, then cdc reload: {error}"
    if source not in declared:
        return f"{place} declares {source} no longer: cdc reload"
    return "" if declared[source] == loaded else f"the declaration of {source} has changed and is not in Dagster yet: cdc reload"


@lru_cache(maxsize=64)
def _digests(place: Path, _stamps: Stamps) -> dict[str, str]:
    return {source.name: digest(source) for source in (load_sources(place) if place.is_dir() else [load_source(place)])}


KEPT = "CDC_REGISTRY_KEPT"
_LOADED = "CDC_REGISTRY_LOADED"
"""Set by a code server for the processes of its runs: the copy that it has loaded itself."""
_NEWEST = "newest"
_COPIES = 20


def sources_to_define() -> tuple[BaseSource, ...]:
    """The sources that definitions are made of: of a run those of its code server, else those declared now.

    A code server whose folder is broken takes what was loaded last, and says so on stderr; `cdc status` says it as well.

    Raises RegistryError: when it is broken and nothing was loaded before.
    """
    if loaded := os.environ.get(_LOADED):
        return load_sources(Path(loaded))
    folder = settings.sources_folder()
    if not (kept := os.environ.get(KEPT)):
        return load_sources(folder)
    try:
        load_sources(folder)
        copy = _keep(folder, Path(kept))
    except RegistryError as error:
        newest = Path(kept) / _NEWEST
        if not newest.exists():
            raise
        print(f"cdc: the registry is broken; what was loaded before stays:\n{error}", file=sys.stderr, flush=True)
        copy = newest.resolve()
    sources = load_sources(copy)
    os.environ[_LOADED] = str(copy)
    return sources


def _keep(folder: Path, kept: Path) -> Path:
    kept.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=kept))
    try:
        content = hashlib.sha256()
        for file in [*registry_files(folder), *sorted(folder.glob(f"*{REMOVED}"))]:
            text = file.read_bytes()
            (draft / file.name).write_bytes(text)
            content.update(f"{file.name} {len(text)}\n".encode() + text)
        load_sources(draft)  # A file may have changed since the folder was found to be whole.
        copy = kept / content.hexdigest()[:16]
        if not copy.is_dir():
            draft.rename(copy)
        os.utime(copy)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    link = kept / f".{_NEWEST}-{os.getpid()}"
    link.unlink(missing_ok=True)
    link.symlink_to(copy.name)
    link.replace(kept / _NEWEST)
    copies = sorted(
        (entry for entry in kept.iterdir() if entry.is_dir() and not entry.is_symlink()), key=lambda c: c.stat().st_mtime
    )
    for old in copies[:-_COPIES]:
        shutil.rmtree(old, ignore_errors=True)
    return copy
