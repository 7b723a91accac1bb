"""The registry's files from the backup: what is left of them when the repository that held them is gone as well."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from cdc_assets.backup.platform_log import newest_entry, registry_files_in_store
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.registry.errors import RefusalError, RegistryError
from cdc_assets.registry.field_types import SOURCE_NAME
from cdc_assets.registry.loader import load_source


@dataclass(frozen=True)
class RegistryFile:
    """A source's file in its backup; `signed` as people are told, `before` the last one that was another (empty: none)."""

    text: str
    signed: str
    before: str = ""

    @property
    def address(self) -> dict[str, str]:
        """Where its passwords would be sent to."""
        return _address(self.text)

    @property
    def changes(self) -> list[str]:
        """What of that differs from the last file that was another."""
        now, before = self.address, _address(self.before) if self.before else self.address
        return [f"{key} is {now.get(key)}, was {before.get(key)}" for key in {**before, **now} if now.get(key) != before.get(key)]


def _address(text: str) -> dict[str, str]:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "source.yaml"
        file.write_text(text, encoding="utf-8")
        try:
            captured = load_source(file).captured
        except RegistryError:
            return {"address": "not known, this version cannot read the file (cdc validate)"}
    if captured is None:
        return {}
    return {key: json.dumps(value) for key, value in captured.database.model_dump(mode="json").items() if key != "password"}


def read_registry_files(store: ObjectStore, sources: Sequence[str]) -> dict[str, RegistryFile]:
    """By source the text of its file, as it was at the last backup. Logins in addresses are hidden in it.

    Raises:
        RefusalError: the backup has none of a source.
        BackupError, StoreError: it cannot be read.
    """
    files: dict[str, RegistryFile] = {}
    for source in sources:
        if not re.fullmatch(SOURCE_NAME, source):
            raise RefusalError(f"{source!r} is no name of a source: those have letters, digits and _")
        text, before = registry_files_in_store(store, source)
        if not text:
            raise RefusalError(f"this backup has no registry file of source {source}; is the prefix the one of its `backup:`?")
        files[source] = RegistryFile(text, newest_entry(source).authorship(store), before)
    return files


def write_registry_files(texts: dict[str, str], folder: Path) -> list[Path]:
    """A file for each source, in a folder that may not be there yet.

    Raises:
        RefusalError: one of them is there; nothing is written.
    """
    files = {folder / f"{source}.yaml": text for source, text in texts.items()}
    if there := [str(file) for file in files if file.exists()]:
        raise RefusalError(f"{', '.join(there)}: there already, and not touched; name another folder by --into")
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    return list(files)
