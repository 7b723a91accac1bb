"""The registry file of a source is edited as a person would: entries under `tables:` are put in or taken out as text, every
other byte stays as it was.

Dagster learns of the change and is looked at afterwards: assets, checks and the sensor are there, or gone.

The new file is validated before it replaces the old one.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from cdc_assets.capture.onboarding.onboarding_state import Facts, OnboardingWork, Step, find_source
from cdc_assets.registry import settings
from cdc_assets.registry.durable_file import flush
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.loader import load_source, registry_files


def put_in(text: str, key: str, entries: Sequence[str]) -> str:
    """The text with `entries` (each on one line, as in a flow) behind the last one of the list `key`.

    A round trip through a parser would keep comments, but not blanks, line ends, indentation, nor what stands before `---`.

    Raises ValueError: there is no such list, or it cannot be written to as text (an alias of another place).
    """
    listed = _list(text, key)
    if not listed.value:
        raise ValueError(f"{key} is empty")
    end = _end(listed.value[-1])
    if listed.flow_style:
        edited = text[:end] + "".join(f", {entry}" for entry in entries) + text[end:]
    else:
        newline = "\r\n" if "\r\n" in text else "\n"
        lines = newline.join(f"{' ' * listed.start_mark.column}- {entry}" for entry in entries)
        at = _line_end(text, end)
        edited = f"{text[:at]}{lines}{newline}{text[at:]}" if text[:at].endswith("\n") else f"{text}{newline}{lines}{newline}"
    return _check_edit(edited, key, [*_values(text, key), *(_load(entry) for entry in entries)])


def take_out(text: str, key: str, places: Collection[int]) -> str:
    """The text without the entries at these places of the list; comments on lines of their own stay.
    Raises ValueError: as `put_in`."""
    listed, edited = _list(text, key), text
    for index in sorted(places, reverse=True):
        start, end = _span(text, listed, index)
        edited = edited[:start] + edited[end:]
    return _check_edit(edited, key, [value for index, value in enumerate(_values(text, key)) if index not in places])


def _span(text: str, listed: SequenceNode, index: int) -> tuple[int, int]:
    items = listed.value
    if not listed.flow_style:
        dash = text.rindex("-", 0, items[index].start_mark.index)
        return text.rfind("\n", 0, dash) + 1, _line_end(text, _end(items[index]))
    if index:
        return _end(items[index - 1]), _end(items[index])
    return items[0].start_mark.index, items[1].start_mark.index if len(items) > 1 else _end(items[0])


def _list(text: str, key: str) -> SequenceNode:
    root = YAML(typ="safe", pure=True).compose(text)
    for name, value in root.value if isinstance(root, MappingNode) else ():
        if name.value == key and isinstance(value, SequenceNode):
            return value
    raise ValueError(f"no list {key}")


def _end(node: Any) -> int:
    """Behind its last character; a block's own mark lies behind the comments that follow it."""
    while not isinstance(node, ScalarNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(node, MappingNode) else last
    # A text by `|` or `>` ends with its line.
    return int(node.end_mark.index) - (isinstance(node, ScalarNode) and node.style in ("|", ">"))


def _line_end(text: str, index: int) -> int:
    at = text.find("\n", index)
    return len(text) if at < 0 else at + 1


def _check_edit(edited: str, key: str, entries: list[Any]) -> str:
    try:
        if _values(edited, key) == entries:
            return edited
    except YAMLError:
        pass
    raise ValueError(f"{key} has aliases, or something else that cannot be edited as text")


def _values(text: str, key: str) -> list[Any]:
    return list(_load(text)[key])


def _load(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


_TABLES = "tables"
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\.[A-Za-z_][A-Za-z0-9_$]*")


def file_of(folder: Path, source: str) -> Path:
    """The file that declares the source. Raises RefusalError: when none does."""
    for file in registry_files(folder):
        if load_source(file).name == source:
            return file
    raise RefusalError(f"no file in {folder} declares source {source}")


def add_tables(file: Path, tables: Sequence[str]) -> list[str]:
    """Declare tables that are not declared yet; their names.
    Raises RegistryError: when the file would no longer be valid; it is left as it was; RefusalError: when it cannot be edited."""
    declared = {table.name for table in load_source(file).tables}
    new = [name for name in dict.fromkeys(tables) if name not in declared]
    if new:
        _edit(file, lambda text: put_in(text, _TABLES, [_entry(name) for name in new]), f"declare {', '.join(new)} in it")
    return new


def remove_tables(file: Path, tables: Sequence[str]) -> list[str]:
    """Take tables out of the file; the names of those that were in it.
    Raises RefusalError: they are all of its tables, or it cannot be edited."""
    declared = [table.name for table in load_source(file).tables]
    gone = [name for name in declared if name in tables]
    if len(gone) == len(declared):
        raise RefusalError(f"{file}: {', '.join(gone)} are all of the source's tables; a source without tables is no source")
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
        raise RefusalError(f"{file}: {error}: {by_hand} by hand, then give the same command again") from error
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


def declare_tables(work: OnboardingWork) -> Facts:
    """Add what is missing; comments and order of the file stay."""
    file = file_of(settings.sources_folder(), work.declared.name)
    added = add_tables(file, [table.name for table in work.tables])
    before = work.state.done.get("registry", {}).get("added", [])
    return {"file": str(file), "added": sorted({*added, *before})}


def take_back_tables(work: OnboardingWork) -> Facts:
    """Take out what this onboarding has added, never what a person had declared."""
    file = file_of(settings.sources_folder(), work.declared.name)
    return {"removed": remove_tables(file, work.state.done.get("registry", {}).get("added", []))}


DECLARE_TABLES = Step("registry", "the tables are declared in the source's registry file", declare_tables, take_back_tables)


def verify_definitions(work: OnboardingWork) -> Facts:
    """Ask the webserver, where one is known.
    Raises ServiceError: Dagster does not have the definitions; `--resume` repeats this step alone."""
    url = settings.lookup("CDC_DAGSTER_URL")
    if url is None:
        why = "CDC_DAGSTER_URL is not set, so no Dagster was told: set it, then cdc reload"
        work.say(f"definitions: {why}")
        return {"verified": False, "why": why}
    if work.take_in is None:
        return {"verified": False, "why": "the tables were declared before: nothing is new to Dagster"}
    # As the file declares it now: an earlier step has edited it.
    return {"verified": True, **work.take_in(url, [find_source(work.declared.name)], work.say)}


VERIFY_DEFINITIONS = Step(
    "definitions",
    "Dagster has the definitions: the webserver is asked to reload, then what it has is compared",
    verify_definitions,
)
