"""Which certificate is verified, by the address and by what a source's file says; the connector is told the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from cdc_assets.capture.connectors.debezium_settings import binlog_tls, postgresql_tls
from cdc_assets.clients.databases.drivers import libpq_options, pymysql_options
from cdc_assets.registry.databases import Database, MariaDb, MongoDb, MySql, is_here
from cdc_assets.registry.errors import DatabaseError

WHO = {"user": "u", "password": {"secret": "s"}}


def postgresql(host: str = "db.example", **more: str) -> Database:
    return Database.model_validate({"kind": "postgresql", "dbname": "d", "host": host, **WHO, **more})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost", "LOCALHOST."])
def test_the_loopback_is_here(host: str) -> None:
    assert is_here(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "localhost.example", "127.0.0.1.example", "db", "", "::", "/run"])
def test_any_other_address_is_elsewhere(host: str) -> None:
    assert not is_here(host)


def test_our_client_and_the_connector_are_told_the_same() -> None:
    here, elsewhere, ours = postgresql("localhost"), postgresql(), postgresql("127.0.0.1", sslrootcert="/ca.pem")
    assert (libpq_options(here, "localhost"), postgresql_tls(here)) == ({"sslmode": "prefer"}, {"database.sslmode": "prefer"})
    assert libpq_options(elsewhere, "db.example")["sslmode"] == "verify-full"
    assert libpq_options(elsewhere, "db.example")["sslrootcert"]
    javas = "org.postgresql.ssl.DefaultJavaSSLFactory"
    assert postgresql_tls(elsewhere) == {"database.sslmode": "verify-full", "database.sslfactory": javas}
    assert libpq_options(ours, "127.0.0.1") == {"sslmode": "verify-full", "sslrootcert": "/ca.pem"}
    assert postgresql_tls(ours) == {"database.sslmode": "verify-full", "database.sslrootcert": "/ca.pem"}
    assert postgresql_tls(postgresql(sslmode="disable")) == {"database.sslmode": "disable"}


def test_of_a_binlog() -> None:
    mode = "database.ssl.mode"
    for kind, words in ((MariaDb, ("disable", "verify-full", "trust")), (MySql, ("preferred", "verify_identity", "required"))):
        name = kind.__name__.lower()
        declared = {h: kind.model_validate({"kind": name, "host": h, **WHO}) for h in ("127.0.0.1", "db.example")}
        assert tuple(binlog_tls(database)[mode] for database in declared.values()) == words[:2]
        assert pymysql_options(declared["db.example"], "db.example")["ssl"].check_hostname
        trusting = kind.model_validate({"kind": name, "host": "db.example", "sslmode": words[2], **WHO})
        assert binlog_tls(trusting) == {mode: words[2]}
        assert not pymysql_options(trusting, "db.example")["ssl"].check_hostname


def test_a_file_of_authorities_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    for file in ("none.pem", "empty.pem"):
        path = str(tmp_path / file)
        database = MariaDb.model_validate({"kind": "mariadb", "host": "127.0.0.1", "sslrootcert": path, **WHO})
        with pytest.raises(DatabaseError, match=f"sslrootcert {path} cannot be read as PEM: "):
            pymysql_options(database, "127.0.0.1")


def test_an_authority_that_nobody_asks_is_refused() -> None:
    with pytest.raises(ValidationError, match="sslrootcert does nothing with sslmode: require; take one of them out"):
        postgresql(sslmode="require", sslrootcert="/ca.pem")
    with pytest.raises(ValidationError, match="give sslrootcert too"):
        MariaDb.model_validate({"kind": "mariadb", "host": "db", "truststore": "/ca.jks", **WHO})


@pytest.mark.parametrize(
    ("hosts", "encrypted"),
    [("127.0.0.1:27017,localhost", False), ("[::1]:27017", False), ("::1", False), ("127.0.0.1,db:27017", True)],
)
def test_of_mongodb(hosts: str, encrypted: bool) -> None:
    for tls, wanted in ((None, encrypted), (True, True), (False, False)):
        database = MongoDb.model_validate({"kind": "mongodb", "hosts": hosts, **WHO, **({} if tls is None else {"tls": tls})})
        assert database.encrypts(hosts) is wanted
