"""The registry as a code server has loaded it: a copy that its runs read, so that a half-edited file stops nothing that runs.

A run loads the definitions anew in a process of its own. Without the copy it would read whatever the folder holds in that
second: tables that Dagster does not know yet, or a file that is broken. The embedded stack names a folder for the copies by
CDC_REGISTRY_KEPT; anywhere else the registry's own folder is read.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from cdc_assets import settings
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry_files.errors import RegistryError
from cdc_assets.registry_files.loader import REMOVED, load_sources, registry_files

KEPT = "CDC_REGISTRY_KEPT"
_LOADED = "CDC_REGISTRY_LOADED"
"""Set by a code server for the processes of its runs: the copy that it has loaded itself."""
_NEWEST = "newest"
_COPIES = 20


def sources_to_define() -> tuple[BaseSource, ...]:
    """The sources that definitions are made of: of a run those of its code server, else those declared now.

    A code server whose folder is broken takes what was loaded last, and says so on stderr; `cdc status` says it as well.

    Raises:
        RegistryError: when it is broken and nothing was loaded before.
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
    """A valid copy of the folder's files, named by what they hold, and the newest from now on.

    Raises:
        RegistryError: a file has changed meanwhile and is broken now.
    """
    kept.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=kept))
    try:
        content = hashlib.sha256()
        for file in [*registry_files(folder), *sorted(folder.glob(f"*{REMOVED}"))]:
            text = file.read_bytes()
            (draft / file.name).write_bytes(text)
            content.update(f"{file.name} {len(text)}\n".encode() + text)
        load_sources(draft)
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
    copies = sorted((each for each in kept.iterdir() if each.is_dir() and not each.is_symlink()), key=lambda c: c.stat().st_mtime)
    for old in copies[:-_COPIES]:
        shutil.rmtree(old, ignore_errors=True)
    return copy
