"""ALTER TABLE by chance: several clauses, places, renames, synonyms of types, character sets, comments that are executed."""

from __future__ import annotations

from random import Random

from cdc_assets_tests.support.statements.corpus import Case

_TYPES = (
    *(
        "int",
        "INT UNSIGNED",
        "INTEGER",
        "int4",
        "MIDDLEINT",
        "tinyint(1)",
        "TINYINT UNSIGNED",
        "INT8",
        "bigint unsigned zerofill",
    ),
    *("double", "DOUBLE PRECISION", "float", "dec(8,3)", "NUMERIC(5)", "FIXED(7,2)", "decimal", "bit(3)", "year", "date"),
    *(
        "datetime(3)",
        "timestamp(6) NULL",
        "time(2)",
        "varchar(20)",
        "CHARACTER VARYING(9)",
        "NATIONAL CHAR(5)",
        "text",
        "mediumtext",
    ),
    *("varchar(9) CHARACTER SET latin1", "char(3) COLLATE utf8mb4_bin", "tinyblob", "varbinary(5)", "binary(4)", "json"),
    *("enum('a','b')", "set('x','y')", "point", "REAL", "BOOL", "BOOLEAN", "INTEGER UNSIGNED", "char(4) CHARACTER SET koi8r"),
)
_TABLES = ("CHARACTER SET utf8mb4", "CHARACTER SET latin1", "CHARACTER SET cp1251 COLLATE cp1251_bin")


def alteration(random: Random) -> Case:
    """A table of some columns, and an ALTER TABLE of one to four clauses. A server may refuse it."""
    names = [f"c{number}" for number in range(random.randint(2, 5))]
    columns = ", ".join(f"{name} {random.choice(_TYPES)}" for name in names)
    before = f"CREATE TABLE t (id int PRIMARY KEY, {columns}) {random.choice(_TABLES)}"
    clauses = ", ".join(_clause(random, names, number) for number in range(random.randint(1, 4)))
    return Case(f"ALTER TABLE t {clauses}", (before,))


def _clause(random: Random, names: list[str], number: int) -> str:
    """`names`: the columns that are left for a clause; those that it makes may be named by a place."""
    kind, new = random.choice(_TYPES), f"n{number}"
    taken = names.pop(random.randrange(len(names))) if len(names) > 1 else ""
    place = random.choice(["", "", " FIRST", f" AFTER {random.choice([*names, 'id'])}", f" AFTER {new}"])
    ways = [
        f"ADD COLUMN {new} {kind}{place if new not in place else ''}",
        f"ADD COLUMN ({new} {kind}, {new}b {random.choice(_TYPES)})",
        f"ADD {new} {random.choice(('int', 'bigint'))} GENERATED ALWAYS AS (id + 1) {random.choice(('STORED', 'VIRTUAL'))}",
        f"ADD {new} int NOT NULL DEFAULT 5 COMMENT 'a, b'",
        f"/*!50000 ADD COLUMN {new} {kind} */",
        f"DEFAULT {random.choice(_TABLES)}",
        f"ADD INDEX {new} (id)",
    ]
    if taken:
        ways += [
            f"MODIFY {taken} {kind}{place if new not in place else ''}",
            f"CHANGE {taken} {new} {kind}{place if new not in place else ''}",
            f"CHANGE COLUMN {taken} {new} {kind}, ADD {new}b {random.choice(_TYPES)} AFTER {new}",
            f"ADD {new}b {kind} AFTER {new}, CHANGE COLUMN {taken} {new} {kind}",
            f"RENAME COLUMN {taken} TO {new}",
            f"RENAME COLUMN {taken} TO {names[0]}, RENAME COLUMN {names[0]} TO {taken}",
            f"DROP COLUMN {taken}",
            f"DROP {taken}, ADD {taken} {kind}{place if new not in place else ''}",
            f"ALTER COLUMN {taken} DROP DEFAULT",
        ]
    return random.choice(ways)
