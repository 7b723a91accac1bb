"""What a database says of its columns reaches the silver asset."""

from __future__ import annotations

import pytest

from cdc_assets.capture.source_columns import source_columns
from cdc_assets.clients.kind_clients import open_database
from cdc_assets.clients.schema_ledger import LakeColumn
from cdc_assets.defs.lake_assets import column_schema
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_source import LiveSource

pytestmark = pytest.mark.all


def test_of_postgresql(live: LiveSource) -> None:
    with live.connection() as connection:
        connection.execute("CREATE TABLE public.told (id int PRIMARY KEY, v text)")
        connection.execute("COMMENT ON COLUMN public.told.v IS 'Whom it is ''for''.'")
    source = live.source(["public.told"])
    (table,) = source.tables
    with live.settings():
        found = open_database(source.database).tables([table.id])[table.id]
    held = [LakeColumn("id", "int", False), LakeColumn("v", "string", True), LakeColumn("_cdc_op", "string", True)]
    schema = column_schema(held, source_columns(source, table, found), found)
    assert {column.name: column.description for column in schema.columns[:2]} == {"id": None, "v": "Whom it is 'for'."}
    assert [(column.type, column.constraints.other) for column in schema.columns] == [
        ("int", ["at the source: integer"]),
        ("string", ["at the source: text"]),
        ("string", []),
    ]


def test_of_mariadb(mariadb: LiveMariaDb) -> None:
    own = mariadb.renamed("told")
    own.server.execute(
        "CREATE DATABASE told", "CREATE TABLE told.told (id int PRIMARY KEY, v text COMMENT 'Whom it is ''for''.')"
    )
    source = own.source(["told.told"])
    (table,) = source.tables
    with own.database(source) as database:
        found = database.tables([table.id])[table.id]
    assert {column.name: column.comment for column in found.columns} == {"id": "", "v": "Whom it is 'for'."}
