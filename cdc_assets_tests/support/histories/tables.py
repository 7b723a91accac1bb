"""The tables of the histories: what they are in PostgreSQL, and what the lake is told of them."""

from __future__ import annotations

from dataclasses import dataclass

from spark.specs import Column

# Out of line only in a row above 2 kB: a value of 2.4 kB, not compressed, always is.
LARGE = 2400


@dataclass(frozen=True)
class Kind:
    """A form of table; `large` are the columns whose value PostgreSQL keeps out of line."""

    ddl: str
    columns: tuple[Column, ...]
    keys: tuple[str, ...]
    large: tuple[str, ...] = ()
    full: bool = False


PLAIN = Kind(
    "(id int PRIMARY KEY, v text, n numeric(20,3), at timestamptz)",
    (
        Column("id", "integer", False),
        Column("v", "text"),
        Column("n", "numeric(20,3)"),
        Column("at", "timestamp with time zone"),
    ),
    ("id",),
)
TOASTED = Kind(
    "(id int PRIMARY KEY, v text, big text, bytes bytea, tags text[])",
    (
        Column("id", "integer", False),
        Column("v", "text"),
        Column("big", "text"),
        Column("bytes", "bytea"),
        Column("tags", "text[]"),
    ),
    ("id",),
    ("big", "bytes", "tags"),
)
PAIR = Kind(
    "(id int, part text, v text, big text, PRIMARY KEY (part, id))",
    (Column("id", "integer", False), Column("part", "text", False), Column("v", "text"), Column("big", "text")),
    ("part", "id"),
    ("big",),
)
FULL = Kind(PAIR.ddl, PAIR.columns, PAIR.keys, PAIR.large, full=True)
KINDS = {"plain": PLAIN, "toasted": TOASTED, "pair": PAIR, "full": FULL}
