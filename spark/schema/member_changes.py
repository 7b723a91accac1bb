"""What a type consists of, and what became of it: an enum's labels, a composite's attributes.

PostgreSQL changes them in the catalogue alone. `ALTER TYPE … RENAME VALUE` writes no row, so no event tells of it: the source
shows the new label in every row, and silver keeps the old one. A type replaced by another rewrites the rows, without events too.
A member is `number=name`: pg_enum.oid, which a rename keeps, or the attribute's number.
https://www.postgresql.org/docs/18/catalog-pg-enum.html
"""

from __future__ import annotations

from collections.abc import Mapping

from spark.schema.column_ledger import ColumnChange
from spark.specs import Column

RELABEL, ATTRIBUTES = "relabel", "attributes"
"""Kinds of a change: one label (`now` is empty: it is gone), a composite's attributes."""


def member_changes(old: Column, new: Column) -> list[ColumnChange]:
    """What older rows have that the source shows otherwise by now; none where it is not known, or only labels were added.

    A column of another number is another column, and says nothing of the first one's type.
    """
    was, now = _by_number(old), _by_number(new)
    if not was or not now or old.number is None or old.number != new.number or was == now:
        return []
    if new.kind == "composite":
        return _attributes(new, was, now)
    if was.keys().isdisjoint(now):
        return _other_type(new, was, now)
    renamed = [(label, now[number]) for number, label in was.items() if now.get(number, label) != label]
    return [ColumnChange(RELABEL, new.name, a, b, "rows from before have the old label") for a, b in renamed]


def _attributes(new: Column, was: Mapping[str, str], now: Mapping[str, str]) -> list[ColumnChange]:
    # A renamed attribute is in no text: `(1,x)` has values alone.
    if was.keys() == now.keys():
        return []
    before, after = (", ".join(members.values()) for members in (was, now))
    return [ColumnChange(ATTRIBUTES, new.name, before, after, "texts from before have the attributes of then")]


def _other_type(new: Column, was: Mapping[str, str], now: Mapping[str, str]) -> list[ColumnChange]:
    """All labels have other numbers: it is another type, which may have the same name."""
    gone = [label for label in was.values() if label not in now.values()]
    done = f"another type {new.source_type} took the place of the one before"
    if not gone:
        return [ColumnChange(RELABEL, new.name, "", "", f"{done}, with all its labels")]
    return [ColumnChange(RELABEL, new.name, label, "", f"{done}; rows from before have the old label") for label in gone]


def labels_of(column: Column) -> frozenset[str]:
    """An enum's labels; none where they are not known."""
    return frozenset(_by_number(column).values())


def _by_number(column: Column) -> dict[str, str]:
    return dict(member.split("=", 1) for member in column.members)
