"""Debezium's models against the catalogue, as both were recorded: MariaDB 10.11 and its connector 3.5.0.

A table `s…` was there when the snapshot began; `a…` got its column `c` by ALTER TABLE and `n…` by CREATE TABLE while it streamed.
Which of them are wrong was found by their values (test_model_values_live.py).
"""

from __future__ import annotations

import pytest

from cdc_assets.capture.model_differences import model_difference
from cdc_assets.clients.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.clients.schema_history import ModelColumn, TableModel, newest_models
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.kinds import MARIADB
from cdc_assets_tests.support.models.recorded_models import BENT, UNPARSED, recorded

CASES = {
    "renamed": ("column 1 is kind in the model, id on the server",),
    "inted": ("u is read as int (of INTEGER UNSIGNED), and is int unsigned",),
    "realed": ("r is read as float (of REAL), and is double",),
    "charset": ("z is read as text utf8 (of VARCHAR), and is text latin1",),
    "booled": ("bo is read as boolean (of BOOLEAN), and is tinyint",),
    "unlogged": ("column 1 is id in the model, b on the server",),
    "execd": ("2 columns in the model, 3 columns on the server",),
    "latecoll": ("v is read as text utf8 (of VARCHAR), and is text latin1",),
    "late": (
        "id is read as int (of INTEGER UNSIGNED), and is int unsigned",
        "r is read as float (of REAL), and is double",
    ),
}
RIGHT = {
    *("untouched", "converted", "enumed", "keyed", "dropped", "swapnull", "defaulted", "viaserver"),
    *("latelatin", "lateplain", "likely"),
}


def differences() -> dict[str, tuple[str, ...]]:
    models, tables, _ = recorded()
    told = {id_.table: model_difference(model, tables[id_], MARIADB.signed_words) for id_, model in models.items()}
    return {name: () if found is None else found.found for name, found in told.items()}


def test_each_case_is_told_and_nothing_else() -> None:
    words, found = recorded()[2], differences()
    assert {name: told for name, told in found.items() if name not in words and told} == CASES
    assert {name for name, told in found.items() if name not in words and not told} == RIGHT
    by_word: dict[str, dict[str, bool]] = {}
    for name, word in words.items():
        if name in found:
            by_word.setdefault(word, {})[name[0]] = bool(found[name])
    assert len(by_word) == 130
    wrong = {word: told for word, told in by_word.items() if any(told.values())}
    # What was there when the snapshot began has the catalogue's own words.
    unparsed = {word: {"s": False, "a": True} for word in UNPARSED}
    assert wrong == unparsed | {word: {"s": False, "a": True, "n": True} for word in BENT}


def test_the_statement_and_both_models_are_told() -> None:
    models, tables, _ = recorded()
    table = TableId("mdl", "renamed")
    found = model_difference(models[table], tables[table])
    assert found is not None
    assert "since ALTER TABLE renamed ADD COLUMN kind INT DEFAULT 5 AFTER thing_id, CHANGE COLUMN item_id" in found.text
    assert "(at binlog.0000" in found.text
    assert "Model: kind INT, id INT(11), thing_id INT. Server: id int(11), thing_id int(11), kind int(11)" in found.text


def one(model: ModelColumn, server: CatalogueColumn) -> tuple[str, ...]:
    found = model_difference(TableModel((model,), "", ""), CatalogueTable(TableId("s", "t"), (server,), ()))
    return () if found is None else found.found


@pytest.mark.parametrize(
    ("model", "server", "told"),
    [
        (ModelColumn("e", "ENUM", True, 1, None, "", ("'a'", r"'it\'s'")), "enum('a','it''s')", ""),
        (ModelColumn("e", "ENUM", True, 1, None, "", ("'a'", "'b'")), "enum('b','a')", "enum('a','b')"),
        (ModelColumn("e", "SET", True, 3, None, "", ("'a'",)), "set('a','b')", "set('a')"),
        (ModelColumn("e", "SET", True, 3, None, "", ('"a"', '"it\'s"', '"b""c"')), "set('a','it''s','b\"c')", ""),
        (ModelColumn("d", "DECIMAL", True, 10, 2), "decimal(12,2)", "decimal(10,2)"),
        (ModelColumn("d", "DECIMAL", True, 0, 0), "decimal(10,0)", ""),
        (ModelColumn("d", "DATETIME", True), "datetime(6)", "datetime(0)"),
        (ModelColumn("d", "BINARY", True, 4), "binary(5)", "binary(4)"),
        (ModelColumn("d", "BIT", True, 1), "bit(8)", "bit(1)"),
        (ModelColumn("d", "GEOMCOLLECTION", True), "geometrycollection", ""),
        (ModelColumn("d", "VARCHAR", True, 20, None, "utf8mb3"), "varchar(90)", ""),
        (ModelColumn("d", "INT", True), "bigint(20)", "int"),
        (ModelColumn("d", "INT", False), "int(11)", "NOT NULL"),
    ],
)
def test_what_a_statement_that_nobody_logged_would_change(model: ModelColumn, server: str, told: str) -> None:
    found = one(model, CatalogueColumn(model.name, server, True, "utf8mb4" if "char" in server else ""))
    assert bool(found) == bool(told)
    assert told in "".join(found)


def test_a_column_that_takes_no_null_may_be_modelled_as_one_that_does() -> None:
    assert one(ModelColumn("d", "INT", True), CatalogueColumn("d", "int(11)", False)) == ()


def test_json_is_a_text_that_is_sent_as_it_is() -> None:
    assert one(ModelColumn("u", "JSON", True), CatalogueColumn("u", "longtext", True, "utf8mb4")) == ()
    assert one(ModelColumn("u", "JSON", True), CatalogueColumn("u", "longtext", True, "latin1")) != ()


def test_a_dropped_table_has_no_model() -> None:
    made = {"type": "CREATE", "id": '"s"."t"', "table": {"columns": []}}
    table = TableId("s", "t")
    assert set(newest_models([{"tableChanges": [made]}], [table])) == {table}
    assert newest_models([{"tableChanges": [made]}, {"tableChanges": [{"type": "DROP", "id": '"s"."t"'}]}], [table]) == {}
