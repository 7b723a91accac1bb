"""Entries of a list in a YAML text, put in and taken out as text: every other byte stays as somebody has written it.

A round trip through a parser would keep comments, but not blanks, line ends, indentation, nor what stands before `---`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode


def put_in(text: str, key: str, entries: Sequence[str]) -> str:
    """The text with `entries` (each on one line, as in a flow) behind the last one of the list `key`.

    Raises:
        ValueError: there is no such list, or it cannot be written to as text (an alias of another place).
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

    Raises:
        ValueError: as `put_in`.
    """
    listed, edited = _list(text, key), text
    for place in sorted(places, reverse=True):
        start, end = _span(text, listed, place)
        edited = edited[:start] + edited[end:]
    return _check_edit(edited, key, [value for place, value in enumerate(_values(text, key)) if place not in places])


def _span(text: str, listed: SequenceNode, place: int) -> tuple[int, int]:
    items = listed.value
    if not listed.flow_style:
        dash = text.rindex("-", 0, items[place].start_mark.index)
        return text.rfind("\n", 0, dash) + 1, _line_end(text, _end(items[place]))
    if place:
        return _end(items[place - 1]), _end(items[place])
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


def _check_edit(edited: str, key: str, wanted: list[Any]) -> str:
    try:
        if _values(edited, key) == wanted:
            return edited
    except YAMLError:
        pass
    raise ValueError(f"{key} has aliases, or something else that cannot be edited as text")


def _values(text: str, key: str) -> list[Any]:
    return list(_load(text)[key])


def _load(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)
