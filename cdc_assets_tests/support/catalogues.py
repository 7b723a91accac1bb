"""Catalogues of SQL Server and Oracle in SQLite: views of their names and columns, filled by hand, behind what a driver has."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

SQLSERVER = """
CREATE TABLE sys.databases (name, is_cdc_enabled, snapshot_isolation_state); INSERT INTO sys.databases VALUES ('shop', 1, 1);
CREATE TABLE sys.dm_server_services (servicename, status_desc);
INSERT INTO sys.dm_server_services VALUES ('SQL Server Agent (MSSQLSERVER)', 'Running'), ('SQL Server (MSSQLSERVER)', 'Running');
CREATE TABLE sys.schemas (name, schema_id); INSERT INTO sys.schemas VALUES ('dbo', 1);
CREATE TABLE sys.tables (name, schema_id, object_id, is_tracked_by_cdc);
INSERT INTO sys.tables VALUES ('orders', 1, 10, 1), ('marker', 1, 11, 1), ('other', 1, 12, 0);
CREATE TABLE sys.key_constraints (parent_object_id, type); INSERT INTO sys.key_constraints VALUES (10, 'PK'), (11, 'PK');
CREATE TABLE sys.columns (object_id, column_id, name, system_type_id, user_type_id, precision, scale, is_nullable,
  is_computed DEFAULT 0, is_column_set DEFAULT 0, default_object_id DEFAULT 0);
INSERT INTO sys.columns (object_id, column_id, name, system_type_id, user_type_id, precision, scale, is_nullable)
  VALUES (10, 1, 'id', 231, 231, 0, 0, 0), (10, 2, 'total', 108, 108, 12, 2, 1), (11, 1, 'id', 231, 231, 0, 0, 0);
CREATE TABLE sys.types (name, system_type_id, user_type_id);
INSERT INTO sys.types VALUES ('nvarchar', 231, 231), ('numeric', 108, 108), ('sysname', 231, 256), ('geometry', 240, 129),
  ('sql_variant', 98, 98), ('datetime2', 42, 42), ('name_of_ours', 231, 257);
CREATE TABLE sys.indexes (object_id, index_id, is_primary_key); INSERT INTO sys.indexes VALUES (10, 1, 1), (10, 2, 0);
CREATE TABLE sys.index_columns (object_id, index_id, column_id, key_ordinal);
INSERT INTO sys.index_columns VALUES (10, 1, 1, 1), (10, 2, 2, 1);
CREATE TABLE cdc.change_tables (source_object_id, object_id, capture_instance, create_date);
INSERT INTO cdc.change_tables VALUES (10, 20, 'dbo_orders', 1), (11, 21, 'dbo_marker', 2);
CREATE TABLE cdc.captured_columns (object_id); INSERT INTO cdc.captured_columns VALUES (20), (20), (21);
CREATE TABLE msdb.cdc_jobs (job_type, retention, database_id);
INSERT INTO msdb.cdc_jobs VALUES ('capture', 0, 7), ('cleanup', 10080, 7), ('cleanup', 1, 8);
"""
ORACLE = """
CREATE TABLE v$database (log_mode, supplemental_log_data_min, supplemental_log_data_all);
INSERT INTO v$database VALUES ('ARCHIVELOG', 'YES', 'NO');
CREATE TABLE v$archived_log (first_time, deleted);
INSERT INTO v$archived_log VALUES (julianday('now') - 9, 'NO'), (julianday('now') - 99, 'YES');
CREATE TABLE all_tables (owner, table_name); INSERT INTO all_tables VALUES ('dbo', 'orders'), ('dbo', 'marker'), ('else', 'x');
CREATE TABLE all_constraints (owner, table_name, constraint_type, constraint_name);
INSERT INTO all_constraints VALUES ('dbo', 'orders', 'P', 'pk'), ('dbo', 'orders', 'C', 'check');
CREATE TABLE all_cons_columns (owner, table_name, constraint_name, column_name, position);
INSERT INTO all_cons_columns VALUES ('dbo', 'orders', 'pk', 'id', 1), ('dbo', 'orders', 'check', 'total', NULL);
CREATE TABLE all_tab_cols (owner, table_name, column_name, column_id, data_type, data_precision, data_scale, nullable,
  virtual_column DEFAULT 'NO', hidden_column DEFAULT 'NO', default_length);
INSERT INTO all_tab_cols (owner, table_name, column_name, column_id, data_type, data_precision, data_scale, nullable)
  VALUES ('dbo', 'orders', 'id', 1, 'VARCHAR2', NULL, NULL, 'N'), ('dbo', 'orders', 'total', 2, 'NUMBER', 12, 2, 'Y');
CREATE TABLE all_log_groups (owner, table_name, log_group_type);
INSERT INTO all_log_groups VALUES ('dbo', 'orders', 'ALL COLUMN LOGGING'), ('dbo', 'marker', 'ALL COLUMN LOGGING');
CREATE TABLE v$log (bytes); INSERT INTO v$log VALUES (1073741824), (1073741824);
"""


class Catalogue:
    """A server's catalogue in SQLite, reached as its driver is; `asked` are the statements as they came."""

    def __init__(self, script: str) -> None:
        self.asked: list[str] = []
        self.database = sqlite3.connect(":memory:", isolation_level=None)
        for schema in ("sys", "cdc", "msdb"):
            self.database.execute(f"ATTACH ':memory:' AS {schema}")
        for name, value in {"DB_NAME": "shop", "DB_ID": 7}.items():
            self.database.create_function(name, 0, lambda value=value: value)
        self.database.create_function("OBJECT_SCHEMA_NAME", 1, lambda _: "dbo")
        self.database.create_function("OBJECT_NAME", 1, {10: "orders", 11: "marker"}.get)
        self.database.executescript(script)

    @contextmanager
    def connect(self, **_: Any) -> Iterator[Any]:
        yield SimpleNamespace(cursor=self.cursor)

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        cursor = self.database.cursor()

        def execute(query: str, values: Sequence[Any] = ()) -> None:
            self.asked.append(query)
            own = query.replace("msdb.dbo.", "msdb.").replace("SYSDATE", "julianday('now')")
            cursor.execute(re.sub(r":(\d+)", r"?\1", own).replace("%s", "?"), list(values))

        yield SimpleNamespace(execute=execute, fetchall=cursor.fetchall)
