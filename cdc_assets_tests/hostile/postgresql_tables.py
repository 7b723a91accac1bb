"""Tables of one world of PostgreSQL, drawn at random: names, columns, keys, identities, partitions, children."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from cdc_assets_tests.hostile.names import column_names, quoted, table_name
from cdc_assets_tests.hostile.postgresql_values import ACCEPTING, KEYS, VALUES

ROWS = 60
"""Values of a key are numbered from 1 to this."""
_CHANGED = {
    "numeric(20,3)": ("1.5", "-0.001"),
    "numeric(14,2)": ("123456789012.34",),
    "numeric(14,4)": ("1234567890.1234",),
    "character varying(9)": ("'123456789'",),
}
"""Types that columns are only changed to."""


@dataclass(eq=False)
class Column:
    """A column as it is now.

    `key`: SQL of its value number {n}. `required`: of a key. `filled`: takes no NULL. `settled`: its type has been changed.
    `fresh`: it has come, or got its name, since silver looked last.
    """

    name: str
    type: str
    key: str = ""
    required: bool = False
    filled: bool = False
    settled: bool = False
    fresh: bool = False

    @property
    def sql(self) -> str:
        """Its quoted name."""
        return quoted(self.name)


@dataclass
class Table:
    """A table as it is now. `child`: where its rows are written besides itself. `names`: that its columns have had.

    `lost`: columns have gone. `passing`: since silver looked last a column had a name that no look will have seen.
    """

    schema: str
    name: str
    number: int
    columns: list[Column]
    keys: tuple[str, ...] = ()
    shape: str = "plain"
    declared: dict[str, Any] = field(default_factory=dict)
    ddl: list[str] = field(default_factory=list)
    appends: bool = False
    child: str = ""
    names: set[str] = field(default_factory=set)
    lost: bool = False
    passing: bool = False

    @property
    def sql(self) -> str:
        """Its quoted name."""
        return quoted(self.schema, self.name)

    @property
    def own_rows(self) -> str:
        """What a SELECT of its own rows reads from."""
        return f"ONLY {self.sql}" if self.shape == "inherited" else self.sql

    @property
    def others(self) -> list[Column]:
        """The columns that are no part of a key."""
        return [c for c in self.columns if not c.key and not c.required]

    def look(self) -> None:
        """Silver knows all names of now."""
        self.passing = False
        for column in self.columns:
            column.fresh = False

    def value(self, random: Random, column: Column) -> str:
        """SQL of a value for the column."""
        if column.key:
            return column.key.format(n=random.randint(1, ROWS))
        if not (column.required or column.filled) and random.random() < 0.15:
            return "NULL"
        return random.choice({**VALUES, **ACCEPTING, **_CHANGED}[column.type])

    def insert(self, random: Random, rows: int) -> str:
        """Rows with values at random; what is there already stays."""
        values = ", ".join(f"({', '.join(self.value(random, c) for c in self.columns)})" for _ in range(rows))
        into = self.child if self.child and random.random() < 0.3 else self.sql
        return f"INSERT INTO {into} ({', '.join(c.sql for c in self.columns)}) VALUES {values} ON CONFLICT DO NOTHING"


def plain(schema: str) -> str:
    """The schema beside it whose name is letters and digits alone."""
    return "hostile_" + "".join(c for c in schema if c.isdigit())


def _is_untold(kind: str) -> bool:
    """Whether Debezium sends NULL for an unchanged value of the type, so that the log must hold whole rows."""
    told = ("text", "character varying(5)", "character(5)", "json", "jsonb", "bytea", "integer", "bigint", "date", "uuid")
    if kind.endswith("[]"):
        return kind[:-2] not in told
    other = ("jsonpath", "lquery", "path", "polygon", "pg_snapshot", "pair", "paired", "floats", "texts", '"Odd,;pair"')
    return "multirange" in kind or kind in other


def draw(random: Random, schema: str, number: int) -> Table:
    """Table number `number` of a world."""
    shape = random.choices(("plain", "keyless", "appended", "indexed", "partitioned", "inherited"), (9, 2, 1, 2, 3, 2))[0]
    name = table_name(random, number, kind="postgresql")
    if shape == "inherited":
        # Debezium takes a SELECT of its own for plain names alone.
        schema, name = plain(schema), f"parent_{number}"
    kinds = random.sample(sorted({**VALUES, **ACCEPTING}), random.randint(4, 12))
    names = column_names(random, len(kinds) + 3, kind="postgresql")
    values = [Column(n, kind) for n, kind in zip(names[3:], kinds, strict=True)]
    table = Table(schema, name, number, values, shape=shape, appends=shape == "appended")
    table.declared = {"name": quoted(schema, name)}
    if accepted := [c.name for c in values if c.type in ACCEPTING]:
        table.declared["accept_inexact"] = accepted
    _add_key(random, table, names[:3])
    _declare(random, table)
    return table


def _add_key(random: Random, table: Table, names: list[str]) -> None:
    kinds = ["integer", "text"] if table.shape == "partitioned" else random.sample(sorted(KEYS), random.choice((1, 1, 2, 3)))
    keys = [Column(n, kind, KEYS[kind]) for n, kind in zip(names, kinds, strict=False)]
    if table.shape == "partitioned":
        keys[1].key = "chr(97 + {n} % 3)"
    if table.shape in ("keyless", "appended"):
        for column in keys:
            column.key = ""
    else:
        for column in keys:
            column.required = True
        table.keys = tuple(c.name for c in keys)
    table.columns = [*table.columns, *keys]
    random.shuffle(table.columns)


def _declare(random: Random, table: Table) -> None:
    """Its statements, and how it is declared."""
    columns = ", ".join(f"{c.sql} {c.type}{' NOT NULL' if c.required else ''}" for c in table.columns)
    listed = ", ".join(quoted(key) for key in table.keys)
    key = f", PRIMARY KEY ({listed})" if table.keys and table.shape != "indexed" else ""
    by = ""
    if table.shape == "partitioned":
        by = f" PARTITION BY {random.choice(('RANGE', 'HASH'))} ({quoted(table.keys[0])})"
    table.ddl = [f"CREATE TABLE {table.sql} ({columns}{key}){by}"]
    if by:
        table.ddl += _partitions(table, by)
    elif table.shape == "inherited":
        table.declared["only"] = True
        table.child = quoted(table.schema, f"child {table.number}")
        table.ddl.append(f"CREATE TABLE {table.child} (more int{key}) INHERITS ({table.sql})")
    elif table.shape == "indexed":
        table.declared["keys"] = [*table.keys]
        index = quoted(f'i"{table.number}')
        table.ddl.append(f"CREATE UNIQUE INDEX {index} ON {table.sql} ({listed})")
        table.ddl.append(f"ALTER TABLE {table.sql} REPLICA IDENTITY USING INDEX {index}")
    elif table.shape == "keyless":
        table.declared["without_key"] = "multiset"
        table.ddl.append(f"ALTER TABLE {table.sql} REPLICA IDENTITY FULL")
    if table.shape not in ("keyless", "appended") and (random.random() < 0.3 or any(_is_untold(c.type) for c in table.columns)):
        leaves = (
            [quoted(table.schema, f"p{n}.{table.number}") for n in ((0, 2, 3, 4) if "RANGE" in by else range(3))] if by else []
        )
        table.ddl += [f"ALTER TABLE {each} REPLICA IDENTITY FULL" for each in (table.sql, *leaves)]
    if table.keys and random.random() < 0.35:
        table.declared["history"] = "scd2"
    elif table.keys and random.random() < 0.2:
        table.declared["deletes"] = "soft"


def _partitions(table: Table, by: str) -> list[str]:
    def part(number: int, bound: str, more: str = "", of: str = table.sql) -> str:
        return f"CREATE TABLE {quoted(table.schema, f'p{number}.{table.number}')} PARTITION OF {of} {bound}{more}"

    if "HASH" in by:
        return [part(i, f"FOR VALUES WITH (MODULUS 3, REMAINDER {i})") for i in range(3)]
    second = quoted(table.schema, f"p1.{table.number}")
    return [
        part(0, "FOR VALUES FROM (MINVALUE) TO (20)"),
        part(1, "FOR VALUES FROM (20) TO (40)", f" PARTITION BY LIST ({quoted(table.keys[1])})"),
        part(2, "FOR VALUES IN ('a', 'b')", of=second),
        part(3, "DEFAULT", of=second),
        part(4, "DEFAULT"),
    ]
