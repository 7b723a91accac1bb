"""Names in a Spark server's own catalog, for clients that know nothing of us: `silver_shop.orders`, `bronze.shop`.

Each is a view over the table's path, since a view takes no INSERT, DELETE or ALTER of rows. Spark's session catalog has databases
and no levels above them, so layer and source are one word. A view and a database of ours bear the lake's root as a property:
names of others are never replaced or dropped. With an in-memory catalog, the embedded server's, they are gone when it stops.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdc_assets.errors import LakeSqlError
from cdc_assets.lake_sql.lake_tables import LAYERS, LakeTable
from cdc_assets.names import catalog_name
from cdc_assets.resources.platform import Platform
from spark.delta.identifiers import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MARK = "cdc_assets.lake"
"""The property of a view or database of ours; its value is the lake's root."""
_OF = "cdc_assets.table"


@dataclass(frozen=True)
class SparkNames:
    """What a registration has done: tables by the view's name, and the names of views whose tables have gone."""

    made: Mapping[str, LakeTable]
    dropped: Sequence[str]


def register_names(tables: Sequence[LakeTable], platform: Platform, *, show_sensitive: bool = False) -> SparkNames:
    """Make a view of each table that the lake has, and drop ours of tables that are gone; nothing where a name is of others.

    Sensitive columns are hashes in a view unless asked for: equal values have equal hashes, with a salt of this call.

    Raises:
        LakeSqlError: a name is taken by others, or two tables have one name.
        SparkRunError: the server's own reason.
    """
    wanted = _by_name([table for table in tables if not table.is_now and table.is_there])
    salt = secrets.token_hex(16)

    def find_others(session: SparkSession, lake: str) -> list[str]:
        return sorted(".".join(name) for name, of in _views(session) if name in wanted and of != lake)

    def register(session: SparkSession, lake: str) -> list[str]:
        found = dict(_views(session))
        for name, table in wanted.items():
            _make_database(session, name[0], lake)
            hidden = () if show_sensitive else table.sensitive
            session.sql(_view(name, table, lake, _select_list(session, table, hidden, salt)))
        gone = sorted(name for name, of in found.items() if of == lake and name not in wanted)
        for name in gone:
            session.sql(f"DROP VIEW IF EXISTS {quote(*name)}")
        for database in sorted({name[0] for name in gone}):
            _drop_empty_database(session, database, lake)
        return [".".join(name) for name in gone]

    spark, root = platform.spark(), platform.lake.rstrip("/")
    if others := spark.run(find_others, root):
        raise LakeSqlError(
            f"in Spark's catalog, and not made for this lake: {', '.join(others)}; drop or rename them there first"
        )
    dropped = spark.run(register, root)
    return SparkNames({".".join(name): table for name, table in wanted.items()}, dropped)


def _by_name(tables: Sequence[LakeTable]) -> dict[tuple[str, str], LakeTable]:
    found: dict[tuple[str, str], LakeTable] = {}
    for table in tables:
        other = found.setdefault(catalog_name(table.parts), table)
        if other is not table:
            raise LakeSqlError(f"{table.name} and {other.name} are both {'.'.join(catalog_name(table.parts))} in Spark's catalog")
    return found


def _views(session: SparkSession) -> Iterator[tuple[tuple[str, str], str | None]]:
    """What is in databases that are called as ours are, with the lake that each view bears; None: it is of others."""
    for database in session.catalog.listDatabases():
        if not any(database.name == layer or database.name.startswith(f"{layer}_") for layer in LAYERS):
            continue
        for table in session.catalog.listTables(database.name):
            if not table.isTemporary:
                name = (database.name, table.name)
                yield name, _properties(session, f"SHOW TBLPROPERTIES {quote(*name)}").get(MARK)


def _properties(session: SparkSession, statement: str) -> dict[str, str]:
    return {row[0]: row[1] for row in session.sql(statement).collect()}


def _make_database(session: SparkSession, database: str, lake: str) -> None:
    comment = literal("Views of cdc_assets over the tables of a lake")
    marked = f"WITH DBPROPERTIES ({literal(MARK)} = {literal(lake)})"
    session.sql(f"CREATE DATABASE IF NOT EXISTS {quote(database)} COMMENT {comment} {marked}")


def _drop_empty_database(session: SparkSession, database: str, lake: str) -> None:
    described: Any = _properties(session, f"DESCRIBE DATABASE EXTENDED {quote(database)}").get("Properties", "")
    if f"({MARK},{lake})" in described and not any(not each.isTemporary for each in session.catalog.listTables(database)):
        session.sql(f"DROP DATABASE IF EXISTS {quote(database)} RESTRICT")


def _view(name: tuple[str, str], table: LakeTable, lake: str, selected: str) -> str:
    said = (table.table.description if table.table and table.parts[0] == "silver" else None) or f"{table.name} of {lake}"
    properties = f"{literal(MARK)} = {literal(lake)}, {literal(_OF)} = {literal(table.name)}"
    only = "" if table.only is None else f" WHERE {quote('table')} = {literal(table.only)}"
    # A column that silver gets later is in the view as well, without another registration.
    head = f"CREATE OR REPLACE VIEW {quote(*name)} COMMENT {literal(said)} WITH SCHEMA EVOLUTION"
    return f"{head} TBLPROPERTIES ({properties}) AS SELECT {selected} FROM delta.{quote(table.path)}{only}"


def _select_list(session: SparkSession, table: LakeTable, hidden: Sequence[str], salt: str) -> str:
    """All columns, or by name where some are hidden: those of now."""
    columns = session.read.format("delta").load(table.path).columns if hidden else []
    if not set(hidden) & set(columns):
        return "*"
    return ", ".join(_hash_sql(name, salt) if name in hidden else quote(name) for name in columns)


def _hash_sql(column: str, salt: str) -> str:
    text = f"concat({literal(salt)}, cast({quote(column)} AS string))"
    return f"concat('hash:', substring(sha2({text}, 256), 1, 16)) AS {quote(column)}"
