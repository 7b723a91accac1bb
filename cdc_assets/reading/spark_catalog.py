"""Names in a Spark server's own catalog (`silver_shop.orders`, `bronze.shop`), for clients that know nothing of us.

Each name is a view over the table's path, since a view takes no INSERT, DELETE or ALTER. A view of ours bears the lake's
root as a property: names of others are never replaced or dropped. The embedded server's catalog is lost when it stops, so
a file below CDC_HOME keeps that names were asked for. `cdc up` makes them again, and so does whoever has started Spark
again: `python -m cdc_assets.reading.spark_catalog`.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cdc_assets.chain.fold_specs import current_spec
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.reading.lake_tables import (
    LAYERS,
    Answer,
    LakeTable,
    answer,
    code_and_texts,
    hidden_columns,
    lake_tables,
    pattern_of,
    statement_refusal,
    tables_in,
)
from cdc_assets.recovery.cut_manifest import open_entry
from cdc_assets.registry import settings
from cdc_assets.registry.display_text import HiddenValues
from cdc_assets.registry.durable_file import read_json, replace_json
from cdc_assets.registry.errors import CdcAssetsError, RefusalError, SparkRunError
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.names import catalog_name
from cdc_assets.stack.home import Home
from spark.table.identifiers import literal, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def query_by_spark(
    statement: str, tables: Sequence[LakeTable], platform: Platform, *, limit: int, show_sensitive: bool = False
) -> Answer:
    """At most so many rows of one question.
    Raises RefusalError: what Spark says, with the names that are near to an unknown one."""
    named = tables_in(statement, tables)
    if absent := [table.name for table in named if not table.is_there]:
        raise RefusalError(f"{', '.join(absent)}: nothing of it is in the lake yet: cdc status")
    for table in named:
        if table.at is not None:
            open_entry(table.path, table.at)
    views, values = view_names(named), HiddenValues()
    specs = {
        table.name: current_spec(Chain(platform, table.source), table.table) for table in named if table.is_now and table.table
    }

    def rows(session: SparkSession, text: str) -> Any:
        for table in named:
            frame = _rows_of(session, table, specs.get(table.name))
            shown = frame if show_sensitive else _hide(frame, table.sensitive, values.salt)
            shown.createOrReplaceTempView(views[table.name])
        # Within brackets Spark's grammar takes questions alone. A session's own `sql` runs commands at once.
        return session.sql(f"SELECT * FROM (\n{text}\n)").limit(limit + 1).toArrow()

    try:
        result = platform.spark().run(rows, with_views(statement, named, views))
    except SparkRunError as error:
        raise statement_refusal(statement, str(error), tables) from error
    listed = [result.column(i).to_pylist() for i in range(result.num_columns)]
    hidden = [] if show_sensitive else hidden_columns(named)
    return answer(result.column_names, [*zip(*listed, strict=True)], limit, hidden)


def view_names(named: Sequence[LakeTable]) -> dict[str, str]:
    """`silver_shop_orders` by the table's name; another word behind it where that is taken."""
    views: dict[str, str] = {}
    for table in named:
        name = "_".join(table.parts).lower()
        views[table.name] = name if name not in views.values() else f"{name}_{len(views)}"
    return views


def with_views(statement: str, named: Sequence[LakeTable], views: Mapping[str, str]) -> str:
    """The statement with views in the tables' places: Spark's temporary views have names of one part."""
    longest_first = sorted(named, key=lambda table: -len(table.parts))

    def rewrite(code: str) -> str:
        for table in longest_first:
            code = pattern_of(table).sub(views[table.name], code)
        return code

    return "".join(rewrite(piece) if is_code else piece for piece, is_code in code_and_texts(statement))


def _rows_of(session: SparkSession, table: LakeTable, spec: Any) -> DataFrame:
    from pyspark.sql import functions as sf

    from spark.silver import current_view

    if table.is_now:
        return current_view.rows_now(session, spec)
    reader = session.read.format("delta")
    frame = (reader if table.at is None else reader.option("versionAsOf", table.at.version)).load(table.path)
    return frame if table.only is None else frame.where(sf.col("table") == table.only)


def _hide(rows: DataFrame, sensitive: Sequence[str], salt: bytes) -> DataFrame:
    from pyspark.sql import functions as sf

    for name in sensitive:
        if name in rows.columns:
            text = sf.concat(sf.lit(salt.hex()), sf.col(quote(name)).cast("string"))
            rows = rows.withColumn(name, sf.concat(sf.lit("hash:"), sf.substring(sf.sha2(text, 256), 1, 16)))
    return rows


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

    Raises RefusalError: a name is taken by others, or two tables have one name; SparkRunError: the server's own reason.
    """
    views_by_name = _by_name([table for table in tables if not table.is_now and table.is_there])
    salt = secrets.token_hex(16)

    def find_others(session: SparkSession, lake: str) -> list[str]:
        return sorted(".".join(name) for name, of in _views(session) if name in views_by_name and of != lake)

    def register(session: SparkSession, lake: str) -> list[str]:
        views = dict(_views(session))
        comment = literal("Views of cdc_assets over the tables of a lake")
        marked = f"WITH DBPROPERTIES ({literal(MARK)} = {literal(lake)})"
        for name, table in views_by_name.items():
            session.sql(f"CREATE DATABASE IF NOT EXISTS {quote(name[0])} COMMENT {comment} {marked}")
            hidden = () if show_sensitive else table.sensitive
            session.sql(_view(name, table, lake, _select_list(session, table, hidden, salt)))
        gone = sorted(name for name, of in views.items() if of == lake and name not in views_by_name)
        for name in gone:
            session.sql(f"DROP VIEW IF EXISTS {quote(*name)}")
        for database in sorted({name[0] for name in gone}):
            described: Any = _properties(session, f"DESCRIBE DATABASE EXTENDED {quote(database)}").get("Properties", "")
            if f"({MARK},{lake})" in described and all(view.isTemporary for view in session.catalog.listTables(database)):
                session.sql(f"DROP DATABASE IF EXISTS {quote(database)} RESTRICT")
        return [".".join(name) for name in gone]

    spark, root = platform.spark(), platform.lake.rstrip("/")
    if others := spark.run(find_others, root):
        raise RefusalError(
            f"in Spark's catalog, and not made for this lake: {', '.join(others)}; drop or rename them there first"
        )
    dropped = spark.run(register, root)
    return SparkNames({".".join(name): table for name, table in views_by_name.items()}, dropped)


def _by_name(tables: Sequence[LakeTable]) -> dict[tuple[str, str], LakeTable]:
    tables_by_name: dict[tuple[str, str], LakeTable] = {}
    for table in tables:
        other = tables_by_name.setdefault(catalog_name(table.parts), table)
        if other is not table:
            raise RefusalError(f"{table.name} and {other.name} are both {'.'.join(catalog_name(table.parts))} in Spark's catalog")
    return tables_by_name


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


def _view(name: tuple[str, str], table: LakeTable, lake: str, selected: str) -> str:
    comment = (table.table.description if table.table and table.parts[0] == "silver" else None) or f"{table.name} of {lake}"
    properties = f"{literal(MARK)} = {literal(lake)}, {literal(_OF)} = {literal(table.name)}"
    only = "" if table.only is None else f" WHERE {quote('table')} = {literal(table.only)}"
    # A column that silver gets later is in the view as well, without another registration.
    head = f"CREATE OR REPLACE VIEW {quote(*name)} COMMENT {literal(comment)} WITH SCHEMA EVOLUTION"
    return f"{head} TBLPROPERTIES ({properties}) AS SELECT {selected} FROM delta.{quote(table.path)}{only}"


def _select_list(session: SparkSession, table: LakeTable, hidden: Sequence[str], salt: str) -> str:
    columns = session.read.format("delta").load(table.path).columns if hidden else []
    if not set(hidden) & set(columns):
        return "*"
    salted = {name: f"concat({literal(salt)}, cast({quote(name)} AS string))" for name in hidden}
    hashes = {name: f"concat('hash:', substring(sha2({text}, 256), 1, 16)) AS {quote(name)}" for name, text in salted.items()}
    # By name: a column that the table gets later is not in such a view before the next registration.
    return ", ".join(hashes.get(name, quote(name)) for name in columns)


_TRY_SECONDS, _LONGEST_PAUSE = 120, 15
"""A Spark that has just started may be busy, and the lake's store may start at the same time."""


def keep_names(home: Home, *, show_sensitive: bool) -> None:
    """Note that the names are made again whenever Spark starts, with the values of sensitive columns or with hashes."""
    replace_json(home.spark_names, {"show_sensitive": show_sensitive})


def forget_names(home: Home) -> None:
    """Note that the names are not made again."""
    home.spark_names.unlink(missing_ok=True)


def are_kept(home: Home) -> bool:
    """Whether the names are to be made again."""
    return home.spark_names.exists()


def make_names_again(home: Home) -> int:
    """Register the names as they were asked for, of all tables that are declared now; how many there are.
    Raises RegistryError: the declared sources cannot be read; RefusalError: see `register_names`; SparkRunError: the server's own
    reason."""
    settings.export_stack_environment()
    platform = Platform()
    request = read_json(home.spark_names)
    tables = lake_tables(load_sources(settings.sources_folder()), platform.lake)
    return len(register_names(tables, platform, show_sensitive=bool(request["show_sensitive"])).made)


def main() -> None:
    """The names that CDC_HOME says, tried again where the server has a reason of its own; ends with 1 and the last reason."""
    from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

    home = Home(settings.home())
    if not are_kept(home):
        return
    retrying = Retrying(
        stop=stop_after_delay(_TRY_SECONDS),
        wait=wait_exponential(max=_LONGEST_PAUSE),
        retry=retry_if_exception_type(SparkRunError),
        reraise=True,
    )
    try:
        made = retrying(make_names_again, home)
    except CdcAssetsError as error:
        sys.exit(" ".join(str(error).split()))
    print(f"{made} names in Spark's catalog, as cdc sql --register has asked for")


if __name__ == "__main__":
    main()
