"""Two of Java's text forms, read as Java reads them: a properties file, and the line of a JAAS login.

https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/util/Properties.html#load(java.io.Reader)
JaasConfig of Kafka's clients (3.9): a StreamTokenizer, in which a backslash within quotes escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_BLANK = " \t\f"
_PAIR = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_QUOTED = r""""(?:\\[^\w]|[^"\\])*"|'(?:\\[^\w]|[^'\\])*'"""
_JAAS = re.compile(rf"\s*([\w.$]+)\s+required((?:\s+\w+\s*=\s*(?:{_QUOTED}))*)\s*;\s*")
_OPTION = re.compile(rf"(\w+)\s*=\s*({_QUOTED})")


@dataclass(frozen=True)
class Jaas:
    """One login module and its options."""

    module: str
    options: dict[str, str] = field(repr=False)


def properties(text: str) -> dict[str, str]:
    """Keys and values, without blanks around the values (Kafka takes them away too); the last of a key counts."""
    found = {}
    for line in _logical_lines(text):
        pair = _PAIR.fullmatch(line)
        if pair is not None:
            found[_plain(pair[1])] = _plain(pair[2]).strip()
    return found


def jaas(text: str) -> Jaas | None:
    """The only login of a line; None where it is not one, or its values are not in quotes."""
    found = _JAAS.fullmatch(text)
    if found is None:
        return None
    return Jaas(found[1], {name: re.sub(r"\\(.)", r"\1", value[1:-1]) for name, value in _OPTION.findall(found[2])})


def _logical_lines(text: str) -> Iterator[str]:
    """Lines that end in an odd number of backslashes go on in the next; comments and empty lines are left out."""
    pending: str | None = None
    for line in re.split(r"\r\n|\n|\r", text):
        part = line.lstrip(_BLANK)
        if pending is None and (not part or part[0] in "#!"):
            continue
        whole = (pending or "") + part
        if (len(whole) - len(whole.rstrip("\\"))) % 2:
            pending = whole[:-1]
            continue
        pending = None
        yield whole
    if pending:
        yield pending


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) > 1 else _LETTERS.get(m[1], m[1]), text)
