"""Real servers with certificates, read by the product's own clients: what cannot be verified is refused by default.

`0.0.0.0` reaches a server on the loopback, and is no address of it: to the product it is a server elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.clients.databases.mariadb import MariaDbDatabase
from cdc_assets.clients.databases.postgresql import PostgresDatabase
from cdc_assets.registry.databases import Database, MariaDb
from cdc_assets.registry.errors import DatabaseError
from cdc_assets_tests.deploy.certificates import Authority
from cdc_assets_tests.support.servers.binlog_server import PASSWORD
from cdc_assets_tests.support.servers.mariadb_server import mariadb_server
from cdc_assets_tests.support.servers.own_server import own_server
from cdc_assets_tests.support.servers.tls_front import TlsFront

pytestmark = pytest.mark.service

ELSEWHERE = "0.0.0.0"
NOT_HERE = f"{ELSEWHERE} is not an address of this machine"
OURS = "`sslrootcert: /path/to/ca.pem`"


def assert_refused(ask: Callable[[], object], *told: str) -> None:
    with pytest.raises(DatabaseError) as refused:
        ask()
    assert [text for text in told if text not in str(refused.value)] == [], refused.value


def test_of_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "server").mkdir()
    ours, strangers = (Authority(tmp_path / name, ("core",)) for name in ("ours", "strangers"))
    monkeypatch.setenv("CDC_SECRET_TLS", "only for tests")
    login = {"kind": "postgresql", "user": "live", "dbname": "live", "password": {"secret": "tls"}, "host": "127.0.0.1"}

    def ask(port: int, **more: str) -> Any:
        with PostgresDatabase(Database.model_validate({**login, "port": port, **more})).connection() as connection:
            return connection.execute("SELECT 1").fetchone()[0]

    with own_server(tmp_path / "server", password="only for tests") as server:
        plain = server.postgres.site.ports["postgres"]
        with TlsFront(plain) as front:
            told = ("server does not support SSL", NOT_HERE, OURS, "`sslmode: require`", "`sslmode: disable`")
            assert_refused(lambda: ask(plain, host=ELSEWHERE), *told)
            assert (ask(plain), ask(plain, host=ELSEWHERE, sslmode="disable")) == (1, 1)
            known, stranger = str(ours.certificate), str(strangers.certificate)
            front.show(ours.issue("other", "DNS:db.example"))
            assert_refused(lambda: ask(front.port, host=ELSEWHERE), "certificate verify failed", NOT_HERE, OURS)
            assert_refused(lambda: ask(front.port, sslrootcert=stranger), "certificate verify failed")
            not_its_name = ("does not match host name", "`sslrootcert` is declared")
            assert_refused(lambda: ask(front.port, sslrootcert=known), *not_its_name)
            assert ask(front.port, sslrootcert=known, sslmode="verify-ca") == 1
            assert ask(front.port, host=ELSEWHERE, sslmode="require") == 1
            front.show(ours.issue("right"))
            assert ask(front.port, sslrootcert=known) == 1


def test_of_mariadb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, strangers = (Authority(tmp_path / name, ("core",)) for name in ("ours", "strangers"))
    folder = ours.issue("server")
    options = (f"--ssl-cert={folder / 'user.crt'}", f"--ssl-key={folder / 'user.key'}", f"--ssl-ca={ours.certificate}")
    monkeypatch.setenv("CDC_SECRET_TLS", PASSWORD)
    login = {"kind": "mariadb", "user": "cdc", "password": {"secret": "tls"}, "host": "127.0.0.1"}

    def ask(port: int, **more: str) -> str:
        """The session's cipher; none where it is not encrypted."""
        with MariaDbDatabase(MariaDb.model_validate({**login, "port": port, **more})).connection() as cursor:
            cursor.execute("SHOW STATUS LIKE 'Ssl_cipher'")
            return str(cursor.fetchone()[1])

    known, stranger = str(ours.certificate), str(strangers.certificate)
    (tmp_path / "plain").mkdir()
    with mariadb_server(tmp_path / "plain", "--skip-ssl") as plain:
        told = ("the server doesn't support it", NOT_HERE, OURS, "`sslmode: trust`", "`sslmode: disable`")
        assert_refused(lambda: ask(plain.port, host=ELSEWHERE), *told)
        assert ask(plain.port) == ask(plain.port, host=ELSEWHERE, sslmode="disable") == ""
    (tmp_path / "certified").mkdir()
    with mariadb_server(tmp_path / "certified", *options) as certified:
        port = certified.port
        assert_refused(lambda: ask(port, host=ELSEWHERE), "certificate verify failed", NOT_HERE, OURS)
        assert_refused(lambda: ask(port, sslrootcert=stranger), "certificate verify failed", "`sslrootcert` is declared")
        assert ask(port, sslrootcert=known).startswith("TLS_")
        assert ask(port, host=ELSEWHERE, sslmode="trust").startswith("TLS_")
