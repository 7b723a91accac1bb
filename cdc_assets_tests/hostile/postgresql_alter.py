"""DDL in flight: what a table is changed into while others write, and how the model of it follows."""

from __future__ import annotations

from copy import copy
from random import Random

from psycopg import errors

from cdc_assets_tests.hostile.names import column_names
from cdc_assets_tests.hostile.postgresql_changes import Sessions
from cdc_assets_tests.hostile.postgresql_tables import Column, Table
from cdc_assets_tests.hostile.postgresql_values import VALUES

# Of a type that can become another, and that. Debezium reads the values of before by the type of now, and must be able to.
_CHANGES = {
    "smallint": ("integer", "bigint", "text"),
    "integer": ("bigint", "text", "numeric(20,3)"),
    "bigint": ("text", "numeric"),
    "numeric(10,2)": ("numeric(14,2)", "numeric(14,4)", "text"),
    "real": ("double precision", "text"),
    "date": ("text",),
    "boolean": ("text",),
    "character varying(5)": ("text", "character varying(9)"),
    "uuid": ("text",),
    "timestamp(3) without time zone": ("timestamp without time zone",),
    "mood": ("text",),
    "integer[]": ("text",),
}
_ADDED = ("integer", "text", "boolean", "date", "numeric(10,2)", "jsonb", "text[]", "timestamp with time zone", "smallint")


def alter(sessions: Sessions, table: Table) -> str:
    """One change of the table, in a transaction that also writes; which, or '' where none was possible."""
    random, before = sessions.random, ([copy(column) for column in table.columns], table.lost, table.passing)
    if any(column.type == "feeling" for column in table.columns):
        # Debezium reads the table's definition anew with each such value, and loses columns (docs/explanation/schema-changes.md).
        return ""
    sessions.finish()
    session, kept = random.choice(sessions.open), random.random() < 0.8
    ways = [_add, _add, _drop, _rename, _swap, _reuse]
    # A retyped row is told by no event, and a row without a key cannot be touched.
    change = random.choice(ways if table.shape in ("keyless", "appended") else [*ways, _retype, _retype])
    first = table.insert(random, 2)
    statements = [first, *change(table, random), table.insert(random, 2)]
    if len(statements) == 2:
        return ""
    if change is _retype:
        column = random.choice(table.columns)
        statements.append(f"UPDATE {table.sql} SET {column.sql} = {column.sql}")
    try:
        for statement in statements:
            session.execute(statement.encode())
        session.commit() if kept else session.rollback()
    except (
        errors.NumericValueOutOfRange,
        errors.StringDataRightTruncation,
        errors.InvalidTextRepresentation,
        errors.CannotCoerce,
    ):
        session.rollback()
        kept = False
    if not kept:
        table.columns, table.lost, table.passing = before
    return change.__name__.strip("_") + ("" if kept else " undone")


def _altered(table: Table, *actions: str) -> list[str]:
    return [f"ALTER TABLE {table.sql} {action}" for action in actions]


def _free(table: Table) -> list[Column]:
    return [c for c in table.others if not c.settled]


def _to_drop(table: Table) -> list[Column]:
    """Which can go: where a name that no look has seen may be of one that went or one that came, a record is quarantined."""
    free = _free(table)
    return [c for c in free if not c.fresh] if len(free) > 1 and not table.passing else []


def _name(table: Table, random: Random) -> str:
    """One that no column of the table has or had: Debezium reads what it had by the type of the one that has it now."""
    table.names.update(c.name for c in table.columns)
    return column_names(random, 1, kind="postgresql", taken=tuple(table.names))[0]


def _add(table: Table, random: Random) -> list[str]:
    column = Column(_name(table, random), random.choice(_ADDED), fresh=True)
    table.columns.append(column)
    values = [value for value in VALUES[column.type] if "SELECT" not in value]
    default = random.choice(("", f" DEFAULT {random.choice(values)}", f" NOT NULL DEFAULT {values[0]}"))
    column.filled = "NOT NULL" in default
    return _altered(table, f"ADD {column.sql} {column.type}{default}")


def _drop(table: Table, random: Random) -> list[str]:
    if not (free := _to_drop(table)):
        return []
    column = random.choice(free)
    table.columns.remove(column)
    table.lost = True
    return _altered(table, f"DROP {column.sql}")


def _rename(table: Table, random: Random) -> list[str]:
    if not (free := [c for c in _free(table) if not (table.lost and c.fresh)]):
        return []
    column = random.choice(free)
    table.passing |= column.fresh
    old, column.name, column.fresh = column.sql, _name(table, random), True
    return _altered(table, f"RENAME {old} TO {column.sql}")


def _swap(table: Table, random: Random) -> list[str]:
    """Two columns of one type exchange their names: of others Debezium loses values (docs/explanation/schema-changes.md)."""
    free = [c for c in _free(table) if not c.fresh]
    pairs = [(one, two) for one in free for two in free if one is not two and one.type == two.type]
    if not pairs:
        return []
    one, two = random.choice(pairs)
    first, second = one.sql, two.sql
    one.name, two.name = two.name, one.name
    one.fresh = two.fresh = True
    return _altered(table, f"RENAME {first} TO away", f"RENAME {second} TO {first}", f"RENAME away TO {second}")


def _reuse(table: Table, random: Random) -> list[str]:
    """A column takes the name of one of its type that goes, or another comes under its name.

    Not of the table's last, whose successor cannot be told from it (docs/explanation/schema-changes.md). Debezium reads the
    values of before by the type of the name's new column: all fit a text.
    """
    if len(free := [c for c in _to_drop(table) if c is not table.columns[-1]]) < 2:
        return []
    table.lost = True
    gone = random.choice(free)
    takers = [c for c in free if c is not gone and c.type == gone.type]
    table.columns.remove(gone)
    if takers:
        taker = random.choice(takers)
        table.names.add(taker.name)
        old, taker.name, taker.fresh = taker.sql, gone.name, True
        return _altered(table, f"DROP {gone.sql}", f"RENAME {old} TO {gone.sql}")
    column = Column(gone.name, "text", fresh=True)
    table.columns.append(column)
    return _altered(table, f"DROP {gone.sql}", f"ADD {column.sql} {column.type}")


def _retype(table: Table, random: Random) -> list[str]:
    if not (free := [c for c in _free(table) if c.type in _CHANGES]):
        return []
    column = random.choice(free)
    column.type = random.choice(_CHANGES[column.type])
    column.settled = True
    return _altered(
        table, f"ALTER {column.sql} DROP DEFAULT, ALTER {column.sql} TYPE {column.type} USING {column.sql}::{column.type}"
    )
