"""`cdc preflight` of a real MySQL: each fault is planted, found, and mended by the very statement that is printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_assets.capture.connectors.apply_source import ensure_signal_table
from cdc_assets.capture.preflight.inspection import Report, fix, preflight
from cdc_assets.clients.databases.mysql import MySqlConnection
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.databases import MySql
from cdc_assets.registry.errors import DatabaseError
from cdc_assets.registry.source_declaration import UnaskedSource
from cdc_assets_tests.support.fakes import without_clusters
from cdc_assets_tests.support.servers.binlog_server import PASSWORD
from cdc_assets_tests.support.servers.mysql_server import GRANTS as CONNECTORS
from cdc_assets_tests.support.servers.mysql_server import MySqlServer, mysql_server

pytestmark = pytest.mark.all

NAMES = ("shop.orders", 'shop."o`d,d"', 'shop."O%d"')
GRANTS = ("GRANT INSERT, DELETE ON shop.marker TO cdc", "GRANT INSERT ON shop.signals TO cdc")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySqlServer]:
    with mysql_server(tmp_path_factory.mktemp("mysql"), "--gtid-mode=ON", "--enforce-gtid-consistency=ON") as found:
        found.execute(
            "CREATE DATABASE shop",
            *(f"CREATE TABLE shop.{name} (id bigint PRIMARY KEY)" for name in ("orders", "`o``d,d`", "`O%d`")),
            "CREATE TABLE shop.marker (id varchar(100) PRIMARY KEY)",
            "CREATE TABLE shop.signals (id varchar(42) PRIMARY KEY, type varchar(32), data varchar(2048))",
            *GRANTS,
        )
        yield found


@pytest.fixture(autouse=True)
def _around(monkeypatch: pytest.MonkeyPatch) -> None:
    without_clusters(monkeypatch)
    monkeypatch.setenv("CDC_SECRET_SHOP", PASSWORD)


def address(port: int, **settings: object) -> dict[str, object]:
    return {"kind": "mysql", "host": "127.0.0.1", "port": port, "user": "cdc", "password": {"secret": "shop"}, **settings}


def source(server: MySqlServer, **settings: object) -> UnaskedSource:
    tables = [{"name": name, "keys": ["id"], "columns": {"id": "bigint not null"}} for name in NAMES]
    ours = {"marker": "shop.marker", "signals": "shop.signals"}
    declared = {"source": "shop", "database": address(server.port, **settings), "reconciliation": ours, "tables": tables}
    return UnaskedSource.model_validate(declared)


def look(server: MySqlServer, **settings: object) -> Report:
    return preflight(Chain(Platform(), source(server, **settings)))


def bad(report: Report) -> dict[str, str]:
    return {f"{f.level} {f.check} {f.subject}": f.mend or "" for f in report.findings if f.level != "ok"}


def test_a_server_that_allows_capture(server: MySqlServer) -> None:
    report = look(server)
    assert bad(report) == {}
    held = {f"{f.check} {f.subject}" for f in report.findings}
    assert held >= {"log_bin server", "retention server", "table shop.o`d,d", "table shop.O%d", "table shop.marker"}


FAULTS = {
    "fail binlog_format server": ["SET GLOBAL binlog_format = 'MIXED'"],
    "fail binlog_row_image server": ["SET GLOBAL binlog_row_image = 'MINIMAL'"],
    "fail binlog_row_value_options server": ["SET GLOBAL binlog_row_value_options = 'PARTIAL_JSON'"],
    "fail server_id server": ["SET GLOBAL server_id = 0"],
    "warn retention server": ["SET GLOBAL binlog_expire_logs_seconds = 3600"],
    "warn gtid server": [
        *(f"SET GLOBAL gtid_mode = {mode}" for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")),
        "SET GLOBAL enforce_gtid_consistency = OFF",
    ],
    "fail privileges server": ["REVOKE RELOAD, REPLICATION SLAVE ON *.* FROM cdc"],
    "fail privileges shop.orders": [
        "REVOKE SELECT ON *.* FROM cdc",
        *(f"GRANT SELECT ON shop.{name} TO cdc" for name in ("`o``d,d`", "`O%d`", "marker", "signals")),
        # It may be seen, and not be read.
        "GRANT INSERT, SELECT (id) ON shop.orders TO cdc",
    ],
    "fail privileges shop.marker": ["REVOKE DELETE ON shop.marker FROM cdc"],
    "fail privileges shop.signals": ["REVOKE INSERT ON shop.signals FROM cdc"],
    "fail table shop.orders": ["DROP TABLE shop.orders"],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_mended_as_printed(server: MySqlServer, fault: str) -> None:
    server.execute(*FAULTS[fault])
    found = bad(look(server))
    assert [*found] == [fault]
    mend = "CREATE TABLE shop.orders (id bigint PRIMARY KEY)" if "table" in fault else found[fault]
    server.execute(*mend.split("; "))
    assert bad(look(server)) == {}


def test_a_signal_table_that_is_not_there_is_made_by_cdc_apply(server: MySqlServer) -> None:
    server.execute("DROP TABLE shop.signals", "REVOKE INSERT ON shop.signals FROM cdc")
    (mend,) = [mend for fault, mend in bad(look(server)).items() if fault == "warn signals shop.signals"]
    server.execute(mend.partition(";")[0])
    assert bad(look(server)) == {}
    assert ensure_signal_table(source(server)) == ""
    assert server.query("SELECT COUNT(*) FROM shop.signals") == [(0,)]
    server.execute("REVOKE CREATE, INSERT, DELETE ON shop.* FROM cdc")
    assert bad(look(server)) == {"fail privileges shop.signals": "GRANT INSERT ON `shop`.`signals` TO 'cdc'@'%'"}
    server.execute(*GRANTS)


def test_rights_of_a_role_and_of_a_pattern_count_and_what_is_revoked_does_not(server: MySqlServer) -> None:
    server.execute(
        *("DROP USER cdc", CONNECTORS[0], *GRANTS),
        "CREATE ROLE capturer",
        "GRANT RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO capturer",
        r"GRANT SELECT ON `s_o%`.* TO capturer",
        "GRANT capturer TO cdc",
    )
    assert "fail privileges server" in bad(look(server))
    server.execute("SET DEFAULT ROLE ALL TO cdc")
    assert bad(look(server)) == {}
    server.execute("DROP ROLE capturer", "SET GLOBAL partial_revokes = ON")
    server.execute(
        "GRANT SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO cdc", "REVOKE SELECT ON shop.* FROM cdc"
    )
    found = bad(look(server))
    assert found["fail privileges shop.marker"] == "GRANT SELECT ON `shop`.`marker` TO 'cdc'@'%'"
    server.execute("GRANT SELECT ON shop.* TO cdc")
    assert bad(look(server)) == {}
    server.execute("DROP USER cdc", "SET GLOBAL partial_revokes = OFF", *CONNECTORS, *GRANTS)


def test_the_account_is_the_one_that_the_server_took_it_for(server: MySqlServer) -> None:
    server.execute(f"CREATE USER cdc@'127.0.0.%' IDENTIFIED BY '{PASSWORD}'", "GRANT SELECT ON *.* TO cdc@'127.0.0.%'")
    found = bad(look(server))
    assert found["fail privileges server"] == "GRANT RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'cdc'@'127.0.0.%'"
    server.execute(*(mend for fault, mend in found.items() if "privileges" in fault))
    assert bad(look(server)) == {}
    server.execute("DROP USER cdc@'127.0.0.%'")


def test_fix_keeps_the_binlog_longer_where_the_role_may(server: MySqlServer) -> None:
    server.execute("SET GLOBAL binlog_expire_logs_seconds = 3600")
    ((finding, said),) = fix(Chain(Platform(), source(server)), look(server))
    assert (finding.check, "Access denied; you need (at least one of) the" in said) == ("retention", True), said
    server.execute("GRANT SYSTEM_VARIABLES_ADMIN ON *.* TO cdc")
    assert [said for _, said in fix(Chain(Platform(), source(server)), look(server))] == ["done"]
    assert bad(look(server)) == {}
    server.execute("REVOKE SYSTEM_VARIABLES_ADMIN ON *.* FROM cdc")
    persisted = "SELECT variable_value FROM performance_schema.persisted_variables WHERE variable_name"
    assert server.query(f"{persisted} = 'binlog_expire_logs_seconds'") == [("604800",)]


def cipher(server: MySqlServer, mode: str) -> str:
    """Of a session of ours; the server has forgotten the password that it had seen, so that the whole login is done."""
    server.execute("FLUSH PRIVILEGES")
    with MySqlConnection(MySql.model_validate(address(server.port, sslmode=mode))).cursor() as cursor:
        cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        return str(cursor.fetchone()[1])


def test_every_sslmode_with_caching_sha2_password(
    server: MySqlServer, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert server.query("SELECT plugin FROM mysql.user WHERE user = 'cdc'") == [("caching_sha2_password",)]
    assert {mode: bool(cipher(server, mode)) for mode in ("disabled", "preferred", "required")} == {
        "disabled": False,
        "preferred": True,
        "required": True,
    }
    for mode in ("verify_ca", "verify_identity"):
        with pytest.raises(DatabaseError, match="certificate verify failed: self-signed certificate"):
            cipher(server, mode)
    (folder,) = server.query("SELECT @@datadir")[0]
    monkeypatch.setenv("SSL_CERT_FILE", str(Path(folder) / "ca.pem"))
    assert cipher(server, "verify_ca")
    with pytest.raises(DatabaseError, match="certificate is not valid for '127.0.0.1'"):
        cipher(server, "verify_identity")


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_a_server_without_tls_and_binlog_or_with_a_filter(tmp_path: Path) -> None:
    with mysql_server(made(tmp_path / "a"), "--tls-version=", "--binlog-ignore-db=shop") as other:
        other.execute("CREATE DATABASE shop", "CREATE TABLE shop.orders (id bigint PRIMARY KEY)")
        assert {mode: cipher(other, mode) for mode in ("disabled", "preferred")} == {"disabled": "", "preferred": ""}
        with pytest.raises(DatabaseError, match="SSL is required but the server doesn't support it"):
            cipher(other, "required")
        found = bad(look(other, sslmode="disabled"))
        assert found["fail binlog_filter shop"] == "correct binlog-ignore-db in my.cnf; then restart the server"
    with mysql_server(made(tmp_path / "b"), "--skip-log-bin") as other:
        found = bad(look(other))
        assert found["fail log_bin server"] == "log_bin = mysql-bin in my.cnf, without skip-log-bin; then restart the server"
