"""Tables that somebody else has made under our names are not touched: nothing of his runs as the role that captures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from cdc_assets.capture.connectors.postgresql_connector import capture_config
from cdc_assets.capture.incarnations.postgresql_incarnation import Start, StartsTable
from cdc_assets.capture.incarnations.server_facts import IncarnationDatabase
from cdc_assets.capture.preflight.postgresql_rules import own_table_findings
from cdc_assets.clients.databases.postgresql import PostgresDatabase
from cdc_assets.clients.databases.postgresql_capture import PostgresCapture
from cdc_assets.registry.databases import Database
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import Source
from cdc_assets.stack.loopback import HOST
from cdc_assets_tests.support.servers.own_server import OwnServer, own_server

WITNESS, STARTS, SIGNAL = (TableId("cdc_assets", f"{name}_shop") for name in ("witness", "starts", "signal"))
TABLES = {
    WITNESS: "(id int PRIMARY KEY, token text NOT NULL)",
    STARTS: "(slot_at pg_lsn PRIMARY KEY, seen timestamptz NOT NULL)",
    SIGNAL: "(id varchar(100) PRIMARY KEY, type varchar(100) NOT NULL, data text)",
}
TRAP = """CREATE FUNCTION public.trap() RETURNS trigger LANGUAGE plpgsql AS
$$BEGIN INSERT INTO public.caught VALUES (current_user); RETURN NEW; END$$"""

pytestmark = pytest.mark.service


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServer]:
    with own_server(tmp_path_factory.mktemp("server")) as server:
        server.run(
            "CREATE ROLE app LOGIN PASSWORD 'app'",
            "CREATE ROLE cdc LOGIN REPLICATION PASSWORD 'cdc' IN ROLE app",
            "ALTER DATABASE live OWNER TO app",
            "GRANT CREATE ON DATABASE live TO cdc",
            "SELECT pg_create_logical_replication_slot('cdc_shop', 'pgoutput', false, false, true)",
        )
        yield server


@pytest.fixture
def source(server: OwnServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Source]:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    monkeypatch.setenv("CDC_SECRET_CDC", "cdc")
    port = server.postgres.site.ports["postgres"]
    database = {"kind": "postgresql", "host": HOST, "port": port, "dbname": "live", "user": "cdc", "password": {"secret": "cdc"}}
    yield Source.model_validate({"source": "shop", "database": database, "tables": [{"name": "public.t"}]})
    server.run(
        "DROP SCHEMA IF EXISTS cdc_assets CASCADE",
        "DROP SCHEMA public CASCADE",
        "CREATE SCHEMA public AUTHORIZATION app",
        "ALTER DATABASE live RESET search_path",
    )


def as_app(server: OwnServer, *statements: str) -> None:
    port = server.postgres.site.ports["postgres"]
    with psycopg.connect(host=HOST, port=port, dbname="live", user="app", password="app", autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def uses(database: Database) -> list[Callable[[], object]]:
    """Every statement of ours that writes to one of the three, or reads it."""
    identity, starts, capture = IncarnationDatabase(database), StartsTable(database), PostgresCapture(database)
    return [
        lambda: identity.facts("cdc_shop", WITNESS),
        lambda: identity.count_look(WITNESS, 7, 0),
        lambda: starts.ensure(STARTS),
        lambda: starts.read(STARTS),
        lambda: starts.forget(STARTS, [Start(1, "")]),
        lambda: capture.ensure_signal_table(SIGNAL),
        lambda: capture.send_signal(SIGNAL, "x", "log", "{}"),
        lambda: capture.clear_signals(SIGNAL),
    ]


def connect_as_the_connector(source: Source) -> None:
    assert isinstance(source.database, Database)
    with PostgresDatabase(source.database).connection() as connection:
        connection.execute("RESET search_path")
        connection.execute(capture_config(source)["database.initial.statements"].replace(";;", ";").encode())


@pytest.mark.parametrize("how", ["owner", "view", "trigger", "grant"])
def test_a_table_that_somebody_made_first(server: OwnServer, source: Source, how: str) -> None:
    assert isinstance(source.database, Database)
    server.run("CREATE TABLE public.caught (who text); GRANT ALL ON public.caught TO PUBLIC", TRAP)
    makes = "CREATE SCHEMA cdc_assets; GRANT ALL ON SCHEMA cdc_assets TO PUBLIC;"
    for table, columns in TABLES.items():
        name = f"cdc_assets.{table.table}"
        if how == "view":
            columns = columns.replace("PRIMARY KEY", "").replace("NOT NULL", "")
            makes += f"CREATE TABLE public.{table.table} {columns}; CREATE VIEW {name} AS TABLE public.{table.table};"
            makes += f"GRANT ALL ON {name}, public.{table.table} TO PUBLIC;"
        else:
            makes += f"CREATE TABLE {name} {columns}; GRANT ALL ON {name} TO {'app' if how == 'grant' else 'PUBLIC'};"
        if how in ("owner", "trigger"):
            makes += f"CREATE TRIGGER t BEFORE INSERT OR UPDATE OR DELETE ON {name} FOR EACH ROW EXECUTE FUNCTION public.trap();"
    if how in ("owner", "view"):
        as_app(server, makes)
    else:
        server.run(makes)
    for use in uses(source.database):
        with pytest.raises(DatabaseError, match="is not ours alone"):
            use()
    connect_as_the_connector(source)
    with server.connection() as connection:
        assert connection.execute("TABLE public.caught").fetchall() == []
        assert connection.execute("TABLE cdc_assets.starts_shop").fetchall() == []
    with PostgresDatabase(source.database).connection() as connection:
        found = own_table_findings(connection, source)
    assert {f.level for f in found} == {"fail"}
    said = " ".join(f.message for f in found)
    expected = {
        "owner": "it belongs to role app",
        "view": "it is no plain table",
        "trigger": "it has the trigger t",
        "grant": "app may write to it",
    }
    assert expected[how] in said
    # Somebody who may runs what is said; then all is ours, and is used.
    if how == "view":
        server.run("DROP SCHEMA cdc_assets CASCADE")
    for finding in found:
        assert finding.mend
        if how != "view":
            server.run(finding.mend)
    server.run("GRANT USAGE, CREATE ON SCHEMA cdc_assets TO cdc" if how != "view" else "SELECT 1")
    if how in ("trigger", "grant"):
        server.run("GRANT ALL ON ALL TABLES IN SCHEMA cdc_assets TO cdc")
    for use in uses(source.database):
        use()
    connect_as_the_connector(source)
    with server.connection() as connection:
        assert connection.execute("SELECT count(*) FROM cdc_assets.starts_shop").fetchall() == [(1,)]
        assert connection.execute("TABLE public.caught").fetchall() == []


def test_a_database_whose_owner_sets_the_path(server: OwnServer, source: Source) -> None:
    """Functions of his own with our functions' names: none is called, by us or by what the connector runs for us."""
    assert isinstance(source.database, Database)
    as_app(
        server,
        "CREATE TABLE public.caught (who text); GRANT ALL ON public.caught TO PUBLIC",
        "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql AS "
        "$$BEGIN INSERT INTO public.caught VALUES (current_user); RETURN now(); END$$",
        "CREATE FUNCTION public.to_regclass(text) RETURNS regclass LANGUAGE plpgsql AS "
        "$$BEGIN INSERT INTO public.caught VALUES (current_user); RETURN pg_catalog.to_regclass($1); END$$",
        "ALTER DATABASE live SET search_path = public, pg_catalog",
    )
    for use in uses(source.database):
        use()
    connect_as_the_connector(source)
    with server.connection() as connection:
        assert connection.execute("TABLE public.caught").fetchall() == []
        assert connection.execute("SELECT count(*) FROM cdc_assets.starts_shop").fetchall() == [(1,)]


def test_types_of_the_public_schema_keep_their_names(server: OwnServer, source: Source) -> None:
    assert isinstance(source.database, Database)
    as_app(
        server, "CREATE TYPE public.mood AS ENUM ('a')", "CREATE TABLE public.t (id int PRIMARY KEY, m mood[], n numeric(5,2))"
    )
    server.run("GRANT SELECT ON public.t TO cdc")
    (table,) = PostgresDatabase(source.database).tables([TableId("public", "t")]).values()
    assert [column.type for column in table.columns] == ["integer", "mood[]", "numeric(5,2)"]
