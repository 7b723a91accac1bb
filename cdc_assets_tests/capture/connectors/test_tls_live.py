"""A real PostgreSQL and a real MariaDB with certificates: one that cannot be verified is refused, unless the address is of this
machine or the source's file says otherwise.

`0.0.0.0` reaches a server on the loopback, and is no address of it: to the product it is a server elsewhere.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.capture.connectors.declared_connectors import capture_config
from cdc_assets.registry.loader import load_source
from cdc_assets.stack.loopback import HOST
from cdc_assets.stack.runtimes import java
from cdc_assets_tests.deploy.certificates import Authority
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.live_binlog import SECRET
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_source import NAME as ROLE
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.servers.mariadb_server import MariaDbServer, mariadb_server
from cdc_assets_tests.support.servers.tls_front import TlsFront

pytestmark = pytest.mark.all

ELSEWHERE = "0.0.0.0"
NOT_HERE = f"{ELSEWHERE} is not an address of this machine"


def until(condition: Callable[[], bool], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


class Declared:
    """One source, whose `database:` is written anew for each look."""

    def __init__(self, cdc: Cdc, name: str, **database: Any) -> None:
        self.cdc, self.name, self.database = cdc, name, database
        self.file = cdc.folder / f"{name}.yaml"

    def write(self, **more: str) -> None:
        source = {"source": self.name, "database": {**self.database, **more}, "tables": [{"name": f"{self.name}.t"}]}
        self.file.write_text(json.dumps(source))

    def refused(self, *said: str, **more: str) -> None:
        """The server was not even asked, for these reasons."""
        self.write(**more)
        found = self.cdc("preflight", self.name, code=1)
        assert [text for text in said if text not in found] == [], found

    def config(self, **more: str) -> dict[str, str]:
        self.write(**more)
        return capture_config(load_source(self.file))  # type: ignore[arg-type]


@pytest.fixture
def declared(make_cdc: Callable[[str], Cdc]) -> Iterator[Callable[..., Declared]]:
    made: list[Declared] = []

    def declare(name: str, **database: Any) -> Declared:
        made.append(Declared(make_cdc(name), name, **database))
        return made[-1]

    yield declare
    for one in made:
        one.cdc.live.connect.delete(f"{one.name}-capture")
        one.file.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), ("core",))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(Authority(tmp_path_factory.mktemp("stranger"), ("core",)).certificate)


@pytest.fixture
def front(live: LiveSource) -> Iterator[TlsFront]:
    with TlsFront(live.postgres.site.ports["postgres"]) as one:
        yield one


def test_a_postgresql_elsewhere_is_verified_by_default(
    declared: Callable[..., Declared], live: LiveSource, front: TlsFront, authority: Authority, stranger: str
) -> None:
    with live.connection() as connection:
        connection.execute("CREATE SCHEMA ptls")
        connection.execute("CREATE TABLE ptls.t (id int PRIMARY KEY)")
    login = {"kind": "postgresql", "host": HOST, "user": ROLE, "dbname": ROLE, "password": {"secret": ROLE}}
    known, of_us = str(authority.certificate), "`sslrootcert: /path/to/ca.pem`"
    plain = declared("plain", **login, port=front.behind)
    plain.refused("server does not support SSL", NOT_HERE, of_us, "`sslmode: require`", "`sslmode: disable`", host=ELSEWHERE)
    source = declared("ptls", **login, port=front.port)
    front.show(authority.issue("other", "DNS:db.example"))
    source.refused("certificate verify failed", NOT_HERE, of_us, host=ELSEWHERE)
    source.refused("certificate verify failed", sslrootcert=stranger)
    source.refused("does not match host name", "`sslrootcert` is declared", sslrootcert=known)
    front.show(authority.issue("right"))
    # The connector judges for itself: its worker need not have our file.
    assert "SSL" in str(source.cdc.live.connect.validate(source.config(sslrootcert=stranger)))
    source.write(sslrootcert=known)
    source.cdc("apply", "ptls")


@pytest.fixture(scope="module")
def with_certificate(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    # The binlog client asks for the name that an address stands for.
    folder = authority.issue("mariadb", f"IP:{HOST},DNS:localhost")
    options = (f"--ssl-cert={folder / 'user.crt'}", f"--ssl-key={folder / 'user.key'}", f"--ssl-ca={authority.certificate}")
    with mariadb_server(tmp_path_factory.mktemp("mariadb"), *options) as server:
        server.execute("ALTER USER cdc REQUIRE SSL", "CREATE DATABASE mtls", "CREATE TABLE mtls.t (id int PRIMARY KEY)")
        yield server


def keystore(certificate: str, folder: Path) -> str:
    """Java's own form, as docs/how-to/security.md makes it."""
    made = folder / "ca.jks"
    command = [str(java().with_name("keytool")), "-importcert", "-noprompt", "-alias", "ca", "-storetype", "JKS"]
    command += ["-file", certificate, "-keystore", str(made), "-storepass", "changeit"]
    subprocess.run(command, check=True, capture_output=True)
    return str(made)


def test_a_mariadb_elsewhere_is_verified_by_default(
    declared: Callable[..., Declared],
    mariadb: LiveMariaDb,
    with_certificate: MariaDbServer,
    authority: Authority,
    stranger: str,
    tmp_path: Path,
) -> None:
    mariadb.write_secret()
    login: dict[str, Any] = {"kind": "mariadb", "user": "cdc", "password": {"secret": SECRET}, "host": HOST}
    without, of_us = declared("plain", **login, port=mariadb.server.port), "`sslrootcert: /path/to/ca.pem`"
    without.refused("the server doesn't support it", NOT_HERE, of_us, "`sslmode: trust`", "`sslmode: disable`", host=ELSEWHERE)
    source = declared("mtls", **login, port=with_certificate.port)
    source.refused("certificate verify failed", NOT_HERE, of_us, host=ELSEWHERE)
    source.refused("certificate verify failed", sslrootcert=stranger)
    known = str(authority.certificate)
    connect, store = source.cdc.live.connect, keystore(known, tmp_path)
    assert connect.validate(source.config(sslrootcert=known)) != {}
    source.write(sslrootcert=known, truststore=store)
    source.cdc("apply", "mtls")
    dumping = "SELECT count(*) FROM information_schema.processlist WHERE user = 'cdc' AND command = 'Binlog Dump'"
    # The server lets this user in by TLS alone.
    until(lambda: with_certificate.query(dumping)[0][0] == 1)
