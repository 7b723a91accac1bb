"""Tables of one world of MariaDB, drawn at random: names, columns in their character sets, keys, partitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from cdc_assets_tests.hostile.names import column_names, quoted, table_name, ticked
from cdc_assets_tests.support.oracles.mariadb_oracle import SHAPES
from cdc_assets_tests.support.values.mariadb_values import EXACT

ROWS = 60
_MORE: dict[str, tuple[str, ...]] = {
    "varchar(40)": (
        "''",
        "'NULL'",
        "'%s ${x} \\\\u0000'",
        "' both '",
        "';'",
        "'0:'",
        "'a\\0b'",
        "'__debezium_unavailable_value'",
    ),
    "text": ("REPEAT('😀', 700)", "''", "'\\r\\n\\t'"),
    "double": ("-0e0", "2.2250738585072014e-308"),
    "decimal(38,38)": ("0.00000000000000000000000000000000000001", "-0.99999999999999999999999999999999999999"),
    "time(6)": ("'-838:59:59.999999'", "'00:00:00.000001'"),
    "json": ("""'{"a": "\\\\u0000"}'""", "'[]'", "'  [1 ,2]'"),
    "set('red','it''s','ü')": ("'ü'",),
    "enum('a','it''s','ünï \"q\"')": ("'it''s'",),
    "varbinary(10)": ("x'5c27'",),
    "longtext": ("REPEAT('x', 70000)", "'\\\\'"),
}
_WITHOUT = {"uuid"}
"""Half of its values begin with 00 once they are shifted (docs/reference/types.md)."""
VALUES = {kind: (*EXACT.get(kind, ()), *_MORE.get(kind, ())) for kind in {**EXACT, **_MORE} if kind not in _WITHOUT}
_CI = "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
_BINARY = "varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
KEYS: dict[str, str] = {
    "int(11)": "{n}",
    "tinyint(3) unsigned": "{n}",
    "bigint(20) unsigned": "18446744073709551615 - {n}",
    "bigint(20)": "-9223372036854775807 + {n}",
    "decimal(10,2)": "{n} - 30.5",
    "decimal(65,30)": "{n} / 8",
    "double": "({n} - 30) / 8e0",
    "date": "DATE '1582-10-20' + INTERVAL {n} DAY",
    "datetime(6)": "TIMESTAMP '0050-01-01 00:00:00.000001' + INTERVAL {n} SECOND",
    "timestamp(6)": "TIMESTAMP '2024-10-27 02:30:00.123456' + INTERVAL {n} SECOND",
    "time(3)": "SEC_TO_TIME({n} * 1.5)",
    "varchar(20) CHARACTER SET latin2": "CONCAT('ž', {n})",
    _CI: "CONCAT('kß', {n})",
    _BINARY: "CONCAT(';:\\'\\\\', {n})",
    "char(10)": "CONCAT('k', {n})",
    "varbinary(30)": "UNHEX(MD5({n}))",
    "binary(4)": "CHAR({n} USING binary)",
    "year(4)": "1950 + {n}",
    "bit(8)": "{n}",
    "enum('a','b','c','d''e')": "1 + {n} % 4",
    "uuid": "CONCAT('123e4567-e89b-12d3-a456-4266554400', LPAD(HEX({n} + 1), 2, '0'))",
}
TWINS = {_CI: "IF({c} REGEXP BINARY 'k', UPPER({c}), LOWER({c}))", "double": "IF({c} = 0, -0e0, {c})"}
"""Values that MariaDB calls equal, written otherwise."""
_CHANGED = {
    "decimal(14,2)": ("123456789012.34",),
    "varchar(90)": ("'changed'",),
    "datetime(6)": ("'2024-02-29 01:02:03.000004'",),
}


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
        value = random.choice({**_CHANGED, **VALUES}[column.type])
        # The values are of this zone. In another the first and the last are out of range: IGNORE makes zero dates of them.
        return f"CONVERT_TZ({value}, '+05:30', @@time_zone)" if column.type.startswith("timestamp") else value

    def insert(self, random: Random, rows: int, verb: str = "INSERT IGNORE") -> str:
        """Rows with values at random; what is there already stays, or goes (REPLACE)."""
        values = ", ".join(f"({', '.join(self.value(random, c) for c in self.columns)})" for _ in range(rows))
        return f"{verb} INTO {self.sql} ({', '.join(c.sql for c in self.columns)}) VALUES {values}"


def draw(random: Random, schema: str, number: int) -> Table:
    """Table number `number` of a world."""
    shape = random.choices(("plain", "appended", "indexed", "partitioned"), (6, 1, 2, 2))[0]
    takes = [kind for kind in sorted(VALUES) if shape != "partitioned" or not kind.startswith(SHAPES)]
    kinds = random.sample(takes, random.randint(4, 12))
    names = column_names(random, len(kinds) + 3, kind="mariadb")
    table = Table(schema, table_name(random, number, kind="mariadb"), number, [], shape=shape)
    table.declared = {"name": quoted(schema, table.name)}
    drawn = ["int(11)", _BINARY] if shape == "partitioned" else random.sample(sorted(KEYS), random.choice((1, 1, 2, 3)))
    keys = [Column(n, kind, KEYS[kind], required=shape != "appended") for n, kind in zip(names, drawn, strict=False)]
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
