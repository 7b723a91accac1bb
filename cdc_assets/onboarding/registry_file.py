"""Edits a source's registry file as a person would: an entry more or less under `tables:`, every other byte as it was.

The new file is validated before it replaces the old one.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from cdc_assets.durable_file import flush
from cdc_assets.errors import OnboardingError
from cdc_assets.onboarding.yaml_entries import put_in, take_out
from cdc_assets.registry_files.loader import load_source, registry_files

_TABLES = "tables"
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_$]*")


def file_of(folder: Path, source: str) -> Path:
    """The file that declares the source.

    Raises:
        OnboardingError: when none does.
    """
    for file in registry_files(folder):
        if load_source(file).name == source:
            return file
    raise OnboardingError(f"no file in {folder} declares source {source}")


def add_tables(file: Path, tables: Sequence[str]) -> list[str]:
    """Declare tables that are not declared yet; their names.

    Raises:
        RegistryError: when the file would no longer be valid; it is left as it was.
        OnboardingError: when it cannot be edited.
    """
    known = {table.name for table in load_source(file).tables}
    new = [name for name in dict.fromkeys(tables) if name not in known]
    if new:
        _edit(file, lambda text: put_in(text, _TABLES, [_entry(name) for name in new]), f"declare {', '.join(new)} in it")
    return new


def remove_tables(file: Path, tables: Sequence[str]) -> list[str]:
    """Take tables out of the file; the names of those that were in it.

    Raises:
        OnboardingError: they are all of its tables, or it cannot be edited.
    """
    declared = [table.name for table in load_source(file).tables]
    gone = [name for name in declared if name in tables]
    if len(gone) == len(declared):
        raise OnboardingError(f"{file}: {', '.join(gone)} are all of the source's tables; a source without tables is no source")
    if gone:
        places = [declared.index(name) for name in gone]
        _edit(file, lambda text: take_out(text, _TABLES, places), f"take {', '.join(gone)} out of it")
    return gone


def _entry(name: str) -> str:
    # JSON's string is YAML's; only where YAML would read the bare name otherwise.
    return f"{{name: {name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)}}}"


def _edit(file: Path, edit: Callable[[str], str], by_hand: str) -> None:
    # A link stays one: what it leads to is edited.
    file = file.resolve()
    try:
        text = edit(file.read_bytes().decode())
    except ValueError as error:
        raise OnboardingError(f"{file}: {error}: {by_hand} by hand, then give the same command again") from error
    # The loader takes *.yaml only, so a draft beside the file is never read as a source.
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".draft", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text.encode())
            flush(stream)
        load_source(Path(name))
        Path(name).chmod(file.stat().st_mode & 0o777)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
