"""Debezium's models of some 130 ways to write a type, recorded with the catalogue: MariaDB 10.11 and its connector 3.5.0.

A table `s…` was there when the snapshot began; `a…` got its column `c` by ALTER TABLE and `n…` by CREATE TABLE while it streamed.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from cdc_assets.clients.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.clients.schema_history import TableModel, newest_models
from cdc_assets.registry.field_types import TableId

BENT = {
    "INTEGER UNSIGNED",
    "INTEGER(10) UNSIGNED ZEROFILL",
    "BOOL",
    "BOOLEAN",
    "REAL",
    "REAL(10,2)",
    "FLOAT4",
    "CHAR(5) CHARACTER SET binary",
    "VARCHAR(5) CHARACTER SET binary",
    "TEXT CHARACTER SET binary",
}
BENT_OF_MYSQL = (BENT - {"INTEGER UNSIGNED", "INTEGER(10) UNSIGNED ZEROFILL"}) | {
    "CHAR(5) BYTE",
    "VARCHAR(5) ASCII",
    "VARCHAR(5) UNICODE",
}
"""Of the same words MySQL 9.7 and its connector 3.6.1."""
UNPARSED = {"VARCHARACTER(5)", "LONG CHARACTER VARYING", "CHAR(5) BYTE", "VARCHAR(5) ASCII", "VARCHAR(5) UNICODE"}
"""Passed over while this was recorded, by skip.unparseable.ddl; the product's connector stops."""


@cache
def recorded() -> tuple[dict[TableId, TableModel], dict[TableId, CatalogueTable], dict[str, str]]:
    """The newest models, the catalogue, and the words of each table's column `c`."""
    held: dict[str, Any] = json.loads(gzip.decompress(Path(__file__).with_name("mariadb_models.json.gz").read_bytes()))
    tables: dict[TableId, CatalogueTable] = {}
    for schema, name, column, kind, nullable, charset in held["catalogue"]:
        table = tables.setdefault(TableId(schema, name), CatalogueTable(TableId(schema, name), (), ()))
        tables[table.id] = replace(table, columns=(*table.columns, CatalogueColumn(column, kind, nullable, charset)))
    return newest_models(held["records"], tables), tables, held["words"]
