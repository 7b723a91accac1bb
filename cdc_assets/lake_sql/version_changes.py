"""What differs between two versions of a silver table, and the events of one key: for notebooks.

Compared by DuckDB, not by pandas, where a column with a NULL is of another type and NULL is not NULL.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cdc_assets.lake_sql.ask import ask, silver_version
from cdc_assets.lake_sql.duckdb_queries import import_duckdb
from cdc_assets.peek.wanted_key import matches_key
from spark.delta.identifiers import double_quote, literal

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_META = "_cdc_"


def value_changes(source: str, table: str, keys: Sequence[str], *, then: int, now: int | None = None) -> pd.DataFrame:
    """Of the rows that both versions have (`now` None: the newest), a line for each value that is another one.

    The keys' columns, `column`, and `then` and `now` as DuckDB writes the values (`_cdc_column` and so on, where a key is called
    so). A column that one version lacks is NULL there.

    Raises:
        LakeSqlError: there is no such table, or its files of a version are gone.
    """
    (_, before), (_, after) = (silver_version(source, table, version) for version in (then, now))
    names = [name for name in dict.fromkeys((*after.column_names, *before.column_names)) if name not in keys]
    parts = [_differing(name, before, after, keys) for name in names if not name.startswith(_META)]
    with import_duckdb().connect() as connection:
        connection.register("before", before)
        connection.register("after", after)
        found: pd.DataFrame = connection.sql(" UNION ALL ".join(parts) + " ORDER BY ALL").df().astype(object)
    found.columns = [*keys, *(f"{_META}{name}" if name in keys else name for name in ("column", "then", "now"))]
    # NULL is shown as None, not as a number that is none.
    return found.where(found.notna(), None)


def _differing(name: str, before: pa.Table, after: pa.Table, keys: Sequence[str]) -> str:
    was, is_now = (
        f"{side}.{double_quote(name)}" if name in rows.column_names else "NULL" for side, rows in _sides(before, after)
    )
    same = " AND ".join(f"before.{double_quote(key)} IS NOT DISTINCT FROM after.{double_quote(key)}" for key in keys)
    told = ", ".join(f"after.{double_quote(key)}" for key in keys)
    types = {str(rows.schema.field(name).type) for _, rows in _sides(before, after) if name in rows.column_names}
    texts = [f"CAST({value} AS VARCHAR)" for value in (was, is_now)]
    compared = (was, is_now) if len(types) == 1 else texts
    values = f"{literal(name)} AS _cdc_column, {texts[0]} AS _cdc_then, {texts[1]} AS _cdc_now"
    return f"SELECT {told}, {values} FROM before JOIN after ON {same} WHERE {compared[0]} IS DISTINCT FROM {compared[1]}"


def _sides(before: pa.Table, after: pa.Table) -> tuple[tuple[str, pa.Table], ...]:
    return ("before", before), ("after", after)


def events_of(source: str, table: str, key: Mapping[str, Any]) -> pd.DataFrame:
    """What bronze holds of one key, in the order of the source's log: position, op, source_ts, tx_id, value (text).

    Of records whose key is JSON; `key` has the values of its columns.

    Raises:
        LakeSqlError: there is no such table.
    """
    wanted = json.dumps({name: value.item() if hasattr(value, "item") else value for name, value in key.items()}, default=str)
    found = ask(
        f"""
        SELECT position, op, source_ts, tx_id, TRY(decode(key)) AS _cdc_key, TRY(decode(value)) AS _cdc_value
        FROM bronze.{double_quote(source)}.{double_quote(table)}
        WHERE {" AND ".join(f"contains(TRY(decode(key)), {literal(str(value))})" for value in key.values())}
        ORDER BY position
        """,
        limit=100_000,
    )
    own = [_is_of(wanted, text) for text in found.pop("_cdc_key")]
    return found[own].rename(columns={"_cdc_value": "value"}).reset_index(drop=True)


def _is_of(wanted: str, text: str) -> bool:
    try:
        decoded = json.loads(text)
    except ValueError:
        return False
    return matches_key(wanted, decoded.get("payload", decoded) if isinstance(decoded, dict) and "schema" in decoded else decoded)
