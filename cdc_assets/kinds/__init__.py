"""The table of kinds of sources: one row each (table.py). Nobody else asks what kind a source is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from cdc_assets.kinds.kind import Kind, Part
from cdc_assets.kinds.table import ROWS

__all__ = [
    "DATABASES",
    "KINDS",
    "HasKind",
    "Kind",
    "Part",
    "expect",
    "experimental_warning",
    "experimental_warnings",
    "kind_of",
    "modules_of_plugins",
    "names_with",
]

KINDS: Mapping[str, Kind] = {row.name: row for row in ROWS}
DATABASES = tuple(row.name for row in ROWS if row.model)
"""What `database.kind` may be."""


_Model = TypeVar("_Model")


class HasKind(Protocol):
    """A source, as the table sees it."""

    @property
    def name(self) -> str:
        """What the registry calls it."""

    @property
    def kind_name(self) -> str:
        """The name of its row."""


def kind_of(source: HasKind) -> Kind:
    """The row of a source's kind."""
    return KINDS[source.kind_name]


def expect(database: object, model: type[_Model]) -> _Model:
    """What stands below `database:`, as the kind's own files know it.

    Raises:
        TypeError: a row of the table has given it to files of another kind.
    """
    if not isinstance(database, model):
        raise TypeError(f"{type(database).__name__} was given to the files of {model.__name__}: see cdc_assets/kinds/table.py")
    return database


def experimental_warning(source: HasKind) -> str:
    """What a user is told of a kind that nobody should rely on yet; empty for all others."""
    row = kind_of(source)
    return f"kind {row.name} is experimental: {row.experimental}" if row.experimental else ""


def experimental_warnings(sources: Iterable[HasKind]) -> dict[str, str]:
    """The same of each source that has one, by its name."""
    return {source.name: warning for source in sources if (warning := experimental_warning(source))}


def names_with(part: str) -> list[str]:
    """The kinds that have this part, in the table's order."""
    return [row.name for row in ROWS if getattr(row, part)]


def modules_of_plugins(plugins: Iterable[str]) -> frozenset[str]:
    """The modules of Java without which a connector of these sets of jars captures other texts than the source has."""
    there = frozenset(plugins)
    return frozenset(row.java_module for row in ROWS if row.java_module and not there.isdisjoint((row.plugin, row.vendor_plugin)))
