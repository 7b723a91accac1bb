"""Tables of one world of MariaDB or MySQL, drawn at random: names, columns in their character sets, keys, partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from cdc_assets_tests.hostile.binlog_facts import BINARY, CHANGED, BinlogFacts
from cdc_assets_tests.hostile.names import column_names, quoted, table_name, ticked
from cdc_assets_tests.support.oracles.mariadb_oracle import SHAPES

ROWS = 60


@dataclass(eq=False)
class Column:
    """A column as it is now. `key`: SQL of its value number {n}. `settled`: its type has been changed."""

    name: str
    type: str
    key: str = ""
    required: bool = False
    filled: bool = False
    settled: bool = False

    @property
    def sql(self) -> str:
        """Its quoted name."""
        return ticked(self.name)


@dataclass
class Table:
    """A table as it is now. `gone`: names of columns that it had, and that no new one may have."""

    facts: BinlogFacts
    schema: str
    name: str
    number: int
    columns: list[Column]
    keys: tuple[str, ...] = ()
    shape: str = "plain"
    declared: dict[str, Any] = field(default_factory=dict)
    ddl: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)

    @property
    def sql(self) -> str:
        """Its quoted name."""
        return ticked(self.schema, self.name)

    @property
    def others(self) -> list[Column]:
        """The columns that are no part of a key."""
        return [c for c in self.columns if not c.required]

    def value(self, random: Random, column: Column) -> str:
        """SQL of a value for the column."""
        if column.key:
            return column.key.format(n=random.randint(1, ROWS))
        if not column.filled and random.random() < 0.15:
            return "NULL"
        value = random.choice({**CHANGED, **self.facts.values}[column.type])
        # The values are of this zone. In another the first and the last are out of range: IGNORE makes zero dates of them.
        return f"CONVERT_TZ({value}, '+05:30', @@time_zone)" if column.type.startswith("timestamp") else value

    def insert(self, random: Random, rows: int, verb: str = "INSERT IGNORE") -> str:
        """Rows with values at random; what is there already stays, or goes (REPLACE)."""
        values = ", ".join(f"({', '.join(self.value(random, c) for c in self.columns)})" for _ in range(rows))
        return f"{verb} INTO {self.sql} ({', '.join(c.sql for c in self.columns)}) VALUES {values}"


def draw(random: Random, facts: BinlogFacts, schema: str, number: int) -> Table:
    """Table number `number` of a world."""
    shape = random.choices(("plain", "appended", "indexed", "partitioned"), (6, 1, 2, 2))[0]
    takes = [kind for kind in sorted(facts.values) if shape != "partitioned" or not kind.startswith(SHAPES)]
    kinds = random.sample(takes, random.randint(4, 12))
    names = column_names(random, len(kinds) + 3, kind=facts.kind)
    table = Table(facts, schema, table_name(random, number, kind=facts.kind), number, [], shape=shape)
    table.declared = {"name": quoted(schema, table.name)}
    drawn = [facts.whole, BINARY] if shape == "partitioned" else random.sample(sorted(facts.keys), random.choice((1, 1, 2, 3)))
    keys = [Column(n, kind, facts.keys[kind], required=shape != "appended") for n, kind in zip(names, drawn, strict=False)]
    table.columns = [*(Column(n, kind) for n, kind in zip(names[3:], kinds, strict=True)), *keys]
    random.shuffle(table.columns)
    table.keys = () if shape == "appended" else tuple(c.name for c in keys)
    _declare(random, table)
    return table


def _declare(random: Random, table: Table) -> None:
    columns = ", ".join(f"{c.sql} {c.type}{' NOT NULL' if c.required else ' NULL'}" for c in table.columns)
    listed = ", ".join(ticked(key) for key in table.keys)
    key = {"indexed": f", UNIQUE INDEX {ticked('i')} ({listed})", "appended": ""}.get(table.shape, f", PRIMARY KEY ({listed})")
    parts = ""
    if table.shape == "partitioned":
        first = ticked(table.keys[0])
        by_range = f"RANGE ({first}) (PARTITION a VALUES LESS THAN (20), PARTITION b VALUES LESS THAN MAXVALUE)"
        parts = f" PARTITION BY {random.choice((by_range, f'HASH ({first}) PARTITIONS 3'))}"
    charset = random.choice(("utf8mb4", "utf8mb4", "latin1"))
    table.ddl = [f"CREATE TABLE {table.sql} ({columns}{key}) ENGINE=InnoDB CHARACTER SET utf8mb4{parts}"]
    if charset == "latin1" and not parts:
        # The table's own character set is not that of its columns.
        table.ddl.append(f"ALTER TABLE {table.sql} DEFAULT CHARACTER SET latin1")
    if table.shape == "indexed":
        table.declared["keys"] = [*table.keys]
    if table.keys and random.random() < 0.35:
        table.declared["history"] = "scd2"
    elif table.keys and random.random() < 0.2:
        table.declared["deletes"] = "soft"
