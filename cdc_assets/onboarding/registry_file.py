"""Edits a source's registry file as a person would: an entry more or less under `tables:`, all else as it was.

The file is parsed and written by ruamel.yaml's round trip, which keeps comments, order and quotes, and validated before
it replaces the old one.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from cdc_assets.errors import OnboardingError
from cdc_assets.registry.loader import load_source


def file_of(folder: Path, source: str) -> Path:
    """The file that declares the source.

    Raises:
        OnboardingError: when none does.
    """
    for file in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        if load_source(file).name == source:
            return file
    raise OnboardingError(f"no file in {folder} declares source {source}")


def add_tables(file: Path, tables: Sequence[str]) -> list[str]:
    """Declare tables that are not declared yet; their names.

    Raises:
        RegistryError: when the file would no longer be valid; it is left as it was.
    """
    known = {table.name for table in load_source(file).tables}
    new = [name for name in dict.fromkeys(tables) if name not in known]
    if new:
        yaml, document = _parse(file)
        for name in new:
            entry = CommentedMap(name=name)
            entry.fa.set_flow_style()
            document["tables"].append(entry)
        _replace(file, yaml, document)
    return new


def remove_tables(file: Path, tables: Sequence[str]) -> list[str]:
    """Take tables out of the file; the names of those that were in it."""
    yaml, document = _parse(file)
    entries = document["tables"]
    places = [i for i, entry in enumerate(entries) if entry["name"] in tables]
    gone = [entries[i]["name"] for i in places]
    if len(gone) == len(entries):
        raise OnboardingError(f"{file}: {', '.join(gone)} are all of the source's tables; a source without tables is no source")
    for place in reversed(places):
        del entries[place]
    if gone:
        _replace(file, yaml, document)
    return gone


def _parse(file: Path) -> tuple[YAML, Any]:
    text = file.read_text(encoding="utf-8")
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = 4096
    dash = next((line for line in text.splitlines() if line.lstrip().startswith("- ") and "name:" in line), "  - ")
    offset = len(dash) - len(dash.lstrip())
    yaml.indent(mapping=2, sequence=offset + 2, offset=offset)
    return yaml, yaml.load(text)


def _replace(file: Path, yaml: YAML, document: Any) -> None:
    text = io.StringIO()
    yaml.dump(document, text)
    # The loader takes *.yaml only, so a draft beside the file is never read as a source.
    handle, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".draft", dir=file.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text.getvalue())
            stream.flush()
            os.fsync(stream.fileno())
        load_source(Path(name))
        Path(name).chmod(file.stat().st_mode & 0o777)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
