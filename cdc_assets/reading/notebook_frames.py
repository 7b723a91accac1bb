"""What a notebook asks: tables as data frames of pandas, the difference of two versions, the events of one key.

Tables have the names of `cdc sql`, and sensitive columns are hashes here as well. Versions are compared by DuckDB: in
pandas a column with a NULL is of another type, and NULL is not NULL.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdc_assets.clients.platform import Platform
from cdc_assets.reading.duckdb_sql import import_duckdb, query_by_duckdb, read_version
from cdc_assets.reading.lake_tables import Answer, LakeTable, lake_tables
from cdc_assets.reading.topic_records import matches_key
from cdc_assets.registry import settings
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.loader import load_sources
from spark.table.identifiers import double_quote, literal

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


def ask(statement: str | None = None, limit: int = 10_000) -> pd.DataFrame:
    """The rows of one statement, at most so many; `attrs["more"]`: there are others. Without a statement, the lake's tables.
    Raises RefusalError: what DuckDB says, with the names that are near to an unknown one."""
    import pandas as pd

    tables, platform = _lake()
    if statement is None:
        there = [table for table in tables if table.is_there]
        return pd.DataFrame({"table": [table.name for table in there], "path": [table.path for table in there]})
    query_answer: Answer = query_by_duckdb(statement, tables, platform, limit=limit)
    rows = pd.DataFrame(query_answer.rows, columns=[*query_answer.columns])
    rows.attrs["more"] = query_answer.more
    return rows


def rows_of(source: str, table: str, version: int | None = None) -> pd.DataFrame:
    """All rows of a silver table as a version of it has them (None: the newest); `attrs["version"]` is that version.
    Raises RefusalError: there is no such table, or its files of that version are gone."""
    at, read = silver_version(source, table, version)
    rows = import_duckdb().from_arrow(read).df()
    rows.attrs["version"] = at
    return rows


def silver_version(source: str, table: str, version: int | None = None) -> tuple[int, pa.Table]:
    """The version of a silver table (None: the newest) and its rows; sensitive columns are hashes.
    Raises RefusalError: as rows_of."""
    tables, _ = _lake()
    silver = next((lake_table for lake_table in tables if lake_table.parts == ("silver", source, table)), None)
    if silver is None:
        raise RefusalError(f"silver.{source}.{table} is no table of the registry: ask() lists all")
    return read_version(silver, version)


def _lake() -> tuple[list[LakeTable], Platform]:
    settings.export_stack_environment()
    platform = Platform()
    return lake_tables(load_sources(settings.sources_folder()), platform.lake), platform


_META = "_cdc_"


def value_changes(source: str, table: str, keys: Sequence[str], *, then: int, now: int | None = None) -> pd.DataFrame:
    """Of the rows that both versions have (`now` None: the newest), a line for each value that is another one.

    The keys' columns, `column`, and `then` and `now` as DuckDB writes the values (`_cdc_column` and so on, where a key is called
    so). A column that one version lacks is NULL there.

    Raises RefusalError: there is no such table, or its files of a version are gone.
    """
    (_, before), (_, after) = (silver_version(source, table, version) for version in (then, now))
    names = [name for name in dict.fromkeys((*after.column_names, *before.column_names)) if name not in keys]
    parts = [_differing(name, before, after, keys) for name in names if not name.startswith(_META)]
    with import_duckdb().connect() as connection:
        connection.register("before", before)
        connection.register("after", after)
        changes: pd.DataFrame = connection.sql(" UNION ALL ".join(parts) + " ORDER BY ALL").df().astype(object)
    changes.columns = [*keys, *(f"{_META}{name}" if name in keys else name for name in ("column", "then", "now"))]
    # NULL is shown as None, not as a number that is none.
    return changes.where(changes.notna(), None)


def _differing(name: str, before: pa.Table, after: pa.Table, keys: Sequence[str]) -> str:
    was, is_now = (
        f"{side}.{double_quote(name)}" if name in rows.column_names else "NULL" for side, rows in _sides(before, after)
    )
    same = " AND ".join(f"before.{double_quote(key)} IS NOT DISTINCT FROM after.{double_quote(key)}" for key in keys)
    key_columns = ", ".join(f"after.{double_quote(key)}" for key in keys)
    types = {str(rows.schema.field(name).type) for _, rows in _sides(before, after) if name in rows.column_names}
    texts = [f"CAST({value} AS VARCHAR)" for value in (was, is_now)]
    compared = (was, is_now) if len(types) == 1 else texts
    values = f"{literal(name)} AS _cdc_column, {texts[0]} AS _cdc_then, {texts[1]} AS _cdc_now"
    return f"SELECT {key_columns}, {values} FROM before JOIN after ON {same} WHERE {compared[0]} IS DISTINCT FROM {compared[1]}"


def _sides(before: pa.Table, after: pa.Table) -> tuple[tuple[str, pa.Table], ...]:
    return ("before", before), ("after", after)


def events_of(source: str, table: str, key: Mapping[str, Any]) -> pd.DataFrame:
    """What bronze holds of one key, in the order of the source's log: position, op, source_ts, tx_id, value (text).

    Of records whose key is JSON; `key` has the values of its columns.

    Raises RefusalError: there is no such table.
    """
    key_json = json.dumps({name: value.item() if hasattr(value, "item") else value for name, value in key.items()}, default=str)
    events = ask(
        f"""
        SELECT position, op, source_ts, tx_id, TRY(decode(key)) AS _cdc_key, TRY(decode(value)) AS _cdc_value
        FROM bronze.{double_quote(source)}.{double_quote(table)}
        WHERE {" AND ".join(f"contains(TRY(decode(key)), {literal(str(value))})" for value in key.values())}
        ORDER BY position
        """,
        limit=100_000,
    )
    own = [_is_of(key_json, text) for text in events.pop("_cdc_key")]
    return events[own].rename(columns={"_cdc_value": "value"}).reset_index(drop=True)


def _is_of(wanted: str, text: str) -> bool:
    try:
        decoded = json.loads(text)
    except ValueError:
        return False
    return matches_key(wanted, decoded.get("payload", decoded) if isinstance(decoded, dict) and "schema" in decoded else decoded)
