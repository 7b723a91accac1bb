"""A table whose model is not the server's is not folded, and the others are; what is not settled is neither right nor wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cdc_assets.capture import source_columns
from cdc_assets.capture.log_position import CaughtUpTimeoutError
from cdc_assets.capture.preflight import table_models
from cdc_assets.chain import continuous_passes, silver_fold
from cdc_assets.cli.verbs import quarantine
from cdc_assets.clients.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.schema_history import ModelColumn, TableModel
from cdc_assets.clients.source_chain import Chain
from cdc_assets.proof import healing
from cdc_assets.proof.comparison_result import IN_SILVER, RowDifference, TableResult
from cdc_assets.recovery import replay_table
from cdc_assets.registry.errors import DatabaseError, FailuresError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import Source, UnaskedSource
from cdc_assets.registry.table_declaration import Table

BENT, SOUND = TableId("shop", "bent"), TableId("shop", "sound")
AS_IT_IS = (CatalogueColumn("id", "int(11)", False), CatalogueColumn("u", "int(10) unsigned", True))
RIGHT = TableModel((ModelColumn("id", "INT", False, 11), ModelColumn("u", "INT UNSIGNED", True, 10)), "CREATE", "")
WRONG = TableModel(
    (ModelColumn("id", "INT", False, 11), ModelColumn("u", "INTEGER UNSIGNED", True)), "ALTER TABLE …", "binlog.000001:4"
)
GROWN = (*AS_IT_IS, CatalogueColumn("n", "int(11)", True))


def found(id_: TableId, model: TableModel, columns: tuple[CatalogueColumn, ...] = AS_IT_IS) -> CatalogueTable:
    return CatalogueTable(id_, columns, ("id",), models=(model,))


@pytest.fixture
def source() -> Source:
    database = {"kind": "mariadb", "host": "db", "user": "cdc", "password": {"secret": "shop"}}
    tables = [{"name": "shop.bent"}, {"name": "shop.sound"}]
    return Source.model_validate({"source": "shop", "database": database, "tables": tables})


class Server:
    """A server and its connector: the catalogue as it is at each look, the model as the connector has it then."""

    def __init__(self, *looks: tuple[CatalogueColumn, ...], model: TableModel = WRONG, away: str = "") -> None:
        self.looks, self.model, self.away, self.waited = list(looks) or [AS_IT_IS], model, away, 0

    def columns(self) -> tuple[CatalogueColumn, ...]:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def tables_in_own_types(self, ids: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        columns = self.columns()
        return {id_: CatalogueTable(id_, columns, ("id",)) for id_ in ids}

    def catalogue(self, _: object, tables: Sequence[TableId]) -> dict[TableId, CatalogueTable]:
        return {id_: replace(table, models=(self.model,)) for id_, table in self.tables_in_own_types(tables).items()}

    def wait(self, *_: object) -> str:
        self.waited += 1
        if self.away:
            raise CaughtUpTimeoutError(self.away)
        return ""

    # As a platform.
    def database(self, _: object) -> Server:
        return self

    def core_connect(self, _: str) -> None:
        return None


@pytest.fixture
def judged(source: Source, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Mapping[TableId, table_models.WrongModel]]:
    def judge(server: Server, before: CatalogueTable) -> Mapping[TableId, table_models.WrongModel]:
        monkeypatch.setattr(table_models, "tables_with_models", server.catalogue)
        monkeypatch.setattr(table_models, "await_binlog", server.wait)
        known = {BENT: before, SOUND: found(SOUND, RIGHT)}
        return table_models.wrong_models(Chain(cast(Platform, server), source), known)

    return judge


def test_nothing_is_asked_where_no_model_differs(judged: Callable[..., Any]) -> None:
    server = Server()
    assert (judged(server, found(BENT, RIGHT)), server.waited) == ({}, 0)


def test_a_difference_that_stays_is_wrong_and_names_the_command_that_mends(judged: Callable[..., Any]) -> None:
    told = judged(Server(), found(BENT, WRONG))
    assert set(told) == {BENT}
    assert told[BENT].waits == ""
    assert told[BENT].text.endswith("Mend: cdc repair model shop shop__bent")


def test_a_statement_that_the_connector_has_read_meanwhile_is_none(judged: Callable[..., Any]) -> None:
    server = Server(model=RIGHT)
    assert (judged(server, found(BENT, WRONG)), server.waited) == ({}, 1)


def test_a_connector_that_has_not_got_there_tells_nothing(judged: Callable[..., Any]) -> None:
    told = judged(Server(away="connector shop-capture is at binlog.000001:4"), found(BENT, WRONG))
    assert told[BENT].waits == "connector shop-capture is at binlog.000001:4"
    assert "cannot be told: connector shop-capture is at" in told[BENT].text


def test_a_table_that_is_altered_meanwhile_is_looked_at_again(judged: Callable[..., Any]) -> None:
    """The model is not that of the second look, and the first look is not the server's any more."""
    server = Server(GROWN, model=RIGHT)
    told = judged(server, found(BENT, WRONG))
    assert (server.waited, told[BENT].waits) == (2, "")
    assert "2 columns in the model, 3 columns on the server" in told[BENT].text
    assert told[BENT].mend == "cdc repair model shop shop__bent"


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {BENT: table_models.WrongModel(table_models.ModelDifference(("u is bent",), "", "", ""), mend="it")}
    monkeypatch.setattr(table_models, "wrong_models", lambda *_, **__: told)


@pytest.mark.usefixtures("held")
def test_a_run_folds_the_others_and_names_all_that_failed(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    folded: list[str] = []

    def fold(_: object, tables: Sequence[Table], *__: object) -> Iterator[tuple[Table, Any]]:
        folded.extend(table.name for table in tables)
        yield tables[0], None
        raise FailuresError.of_tables("silver", {"other": "for a reason of its own"})

    monkeypatch.setattr(silver_fold, "fold_tables", fold)
    known = {BENT: found(BENT, WRONG), SOUND: found(SOUND, RIGHT)}
    work = silver_fold.fold_others(Chain(cast(Platform, None), source), source.tables, known, 1, print)
    assert next(work)[0].id == SOUND
    with pytest.raises(FailuresError, match=r"(?s)other: for a reason.*bent: .*u is bent.*Mend: it"):
        next(work)
    assert folded == ["shop.sound"]


@pytest.mark.usefixtures("held")
def test_a_pass_of_the_continuous_mode_does_the_same(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {BENT: found(BENT, WRONG), SOUND: found(SOUND, RIGHT)}
    monkeypatch.setattr(continuous_passes, "catalogue_or_last_known", lambda *_: known)
    monkeypatch.setattr(continuous_passes, "fold_small", lambda _, tables, *__: {t.id: "done" for t in tables})
    result = continuous_passes.fold_once(Chain(cast(Platform, None), source), source.tables, 1, print)
    assert [each.table.id for each in result.done] == [SOUND]
    assert list(result.failed) == ["shop__bent"]
    assert "u is bent" in result.failed["shop__bent"]


@pytest.mark.usefixtures("held")
def test_a_replay_of_it_is_refused(source: Source, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    known = {BENT: found(BENT, WRONG)}
    monkeypatch.setattr(replay_table, "catalogue_or_last_known", lambda *_: known)
    with pytest.raises(DatabaseError, match=r"shop/shop__bent: .*u is bent.*Mend: it"):
        replay_table.replay_table(
            Chain(Platform(lake_root=str(tmp_path)), source), source.tables[0], replay_table.ReplayWish(), print
        )


@pytest.mark.usefixtures("held")
def test_nothing_of_it_is_healed_or_redriven(source: Source, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known = {BENT: found(BENT, WRONG)}
    for module in (healing, source_columns):
        monkeypatch.setattr(module, "catalogue_of", lambda *_: known)
    monkeypatch.setattr(quarantine, "_tables", lambda _: [(source, source.tables[0])])
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    told = r"shop/shop__bent: .*u is bent.*Mend: it"
    result = TableResult("shop/shop__bent", "different", differences=(RowDifference("1;", "differs", None, None, IN_SILVER),))
    with pytest.raises(DatabaseError, match=told):
        healing.heal(Chain(cast(Platform, SimpleNamespace(lake=str(tmp_path))), source), source.tables[0], result)
    with pytest.raises(DatabaseError, match=told):
        quarantine._run(cast(Platform, SimpleNamespace(lake=str(tmp_path))), "shop/shop__bent", None, is_folded=True)


def test_a_server_without_a_driver_is_not_asked_and_one_that_is_asked_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """MySQL's columns may be declared: then nobody needs a driver to fold."""
    database = {"kind": "mysql", "host": "db", "user": "cdc", "password": {"secret": "shop"}}
    tables = [{"name": str(BENT), "keys": ["id"], "columns": {"id": "integer not null", "u": "bigint"}}]
    declared = UnaskedSource.model_validate({"source": "shop", "database": database, "tables": tables})
    asked = (Chain(cast(Platform, Server()), declared), declared.tables, {})

    def missing(*_: object) -> Mapping[TableId, CatalogueTable]:
        raise DatabaseError.without_driver("MySQL", "PyMySQL")

    monkeypatch.setattr(table_models, "tables_with_models", missing)
    assert table_models.why_held(*asked) == {}
    server = Server(model=replace(WRONG, columns=(WRONG.columns[0], ModelColumn("u", "REAL", True))))
    monkeypatch.setattr(table_models, "tables_with_models", server.catalogue)
    monkeypatch.setattr(table_models, "await_binlog", server.wait)
    assert "u is read as float" in table_models.why_held(Chain(cast(Platform, server), declared), declared.tables, {})[BENT]
    # Its newer connector reads this word as it is.
    server.model = WRONG
    assert table_models.why_held(Chain(cast(Platform, server), declared), declared.tables, {}) == {}
