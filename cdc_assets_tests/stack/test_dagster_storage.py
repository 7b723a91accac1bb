"""The storage of the stack's Dagster: what a tick asks of PostgreSQL, and a connection that the server has dropped."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg
import pytest
from sqlalchemy import event, text

from cdc_assets.stack import dagster_instance
from cdc_assets.stack.component_plan import load
from cdc_assets.stack.components import postgres_server
from cdc_assets.stack.dagster_instance import PooledPostgresStorage
from cdc_assets_tests.support.stack_fixture import RunningStack


@pytest.fixture
def address(stack: RunningStack) -> str:
    password, port = stack.home.private("dagster_db_password"), load(stack.home).ports[postgres_server.NAME]
    return f"postgresql+psycopg2://dagster:{password}@127.0.0.1:{port}/dagster"


@pytest.fixture
def said(address: str) -> Iterator[list[str]]:
    """The statements of this process, as they are sent."""
    engine, statements = PooledPostgresStorage(address)._run_storage._engine, list[str]()

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    yield statements
    event.remove(engine, "before_cursor_execute", note)


def look(address: str) -> None:
    """What a tick asks for, by a storage of its own."""
    storage = PooledPostgresStorage(address)
    storage._event_log_storage.get_asset_records([dg.AssetKey("no_asset")])
    storage._schedule_storage.get_instigator_state("no_origin", "no_selector")
    storage._run_storage.get_run_records(dg.RunsFilter(tags={"no": "tag"}), limit=1)


def test_a_tick_looks_at_tables_and_not_for_them(address: str, said: list[str]) -> None:
    look(address)
    said.clear()
    look(address)
    assert said
    assert [statement for statement in said if "pg_catalog" in statement or "secondary_indexes" in statement] == []


def test_what_was_not_there_is_asked_for_again() -> None:
    """A migration makes it: `dagster instance migrate`."""

    class Storage:
        answers = iter([False, True])

        def has_asset_key_col(self, _: str) -> bool:
            return next(self.answers)

        has_secondary_index = has_asset_key_col

    storage = Storage()
    dagster_instance._Kept(engine=None).remember("_event_log_storage", storage)
    assert [storage.has_asset_key_col("new") for _ in range(4)] == [False, True, True, True]


def test_a_connection_that_the_server_has_dropped_is_replaced(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dagster_instance, "_FRESH_SECONDS", 0.0)
    engine = dagster_instance.engine_with_pool(address)
    pid = text("SELECT pg_backend_pid()")
    with engine.connect() as connection:
        first = connection.execute(pid).scalar_one()
    other = dagster_instance.engine_with_pool(address)
    with other.connect() as connection:
        assert connection.execute(text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": first}).scalar_one()
    with engine.connect() as connection:
        second = connection.execute(pid).scalar_one()
    assert second != first
    with engine.connect() as connection:
        assert connection.execute(pid).scalar_one() == second, "a connection that lives is kept"
    engine.dispose()
    other.dispose()
