"""The registry's files from the backup: what is left of them when the repository that held them is gone as well."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from cdc_assets.backup.platform import newest_part
from cdc_assets.errors import RestoreError
from cdc_assets.registry.declared import SOURCE_NAME
from cdc_assets.resources.object_store import ObjectStore


def read_registry_files(store: ObjectStore, sources: Sequence[str]) -> dict[str, str]:
    """By source the text of its file, as it was at the last backup. Logins in addresses are hidden in it.

    Raises:
        RestoreError: the backup has none of a source.
        BackupError, StoreError: it cannot be read.
    """
    found: dict[str, str] = {}
    for source in sources:
        if not re.fullmatch(SOURCE_NAME, source):
            raise RestoreError(f"{source!r} is no name of a source: those have letters, digits and _")
        text = newest_part(store, source, "registry")
        if not text:
            raise RestoreError(f"this backup has no registry file of source {source}; is the prefix the one of its `backup:`?")
        found[source] = text
    return found


def write_registry_files(texts: dict[str, str], folder: Path) -> list[Path]:
    """A file for each source, in a folder that may not be there yet.

    Raises:
        RestoreError: one of them is there; nothing is written.
    """
    files = {folder / f"{source}.yaml": text for source, text in texts.items()}
    if there := [str(file) for file in files if file.exists()]:
        raise RestoreError(f"{', '.join(there)}: there already, and not touched; name another folder by --into")
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    return list(files)
