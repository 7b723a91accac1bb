"""Table names of a source database: parsing `schema.table`, with quotes where a part holds a dot.

A name is taken literally, as it stands in the catalogue (no case folding): `public.City` is the table
that SQL calls `public."City"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cdc_assets.quantity import quantity
from spark.delta.identifiers import double_quote
from spark.schema.own_names import OWN_PREFIX, is_own_name

_PART = re.compile(r'"((?:[^"]|"")+)"|([^".\s][^".]*)')


class TableId(NamedTuple):
    """A table in its database."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{_quote_if_needed(self.schema)}.{_quote_if_needed(self.table)}"


def parse_table(text: str) -> TableId:
    """Split `schema.table` (either part may be double-quoted).

    Raises:
        ValueError: when the text is not exactly two parts, or holds a control character.
    """
    if any(ord(char) < 32 for char in text):
        raise ValueError("a table name holds no control characters")
    parts: list[str] = []
    at = 0
    while True:
        match = _PART.match(text, at)
        if not match:
            raise ValueError('a table is named schema.table, for example public.city or public."odd.name"')
        quoted, bare = match.groups()
        parts.append(quoted.replace('""', '"') if quoted is not None else bare)
        at = match.end()
        if at == len(text):
            break
        if text[at] != ".":
            raise ValueError('a table is named schema.table, for example public.city or public."odd.name"')
        at += 1
    if len(parts) != 2:
        raise ValueError(f"a table is named schema.table, this has {quantity(len(parts), 'part')}")
    return TableId(parts[0], parts[1])


def refuse_own_names(names: Iterable[str]) -> None:
    """Declared columns called as statements of ours call what stands beside them, or as silver's own.

    Raises:
        ValueError: there are some.
    """
    if taken := [name for name in names if is_own_name(name)]:
        raise ValueError(f"columns {', '.join(taken)}: silver's own columns, and names that begin with {OWN_PREFIX}, are taken")


def case_twins(names: Iterable[str]) -> Iterator[str]:
    """A sentence for each column whose name differs from an earlier one's by case alone.

    Debezium stops the whole source at such a table, whichever of its columns are wanted (JdbcConnection, 3.7).
    """
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            yield f"columns {other!r} and {name!r} differ only by case, which Debezium does not take: rename one at the source"


def _quote_if_needed(part: str) -> str:
    return double_quote(part) if re.search(r'[".\s]', part) else part
