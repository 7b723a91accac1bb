"""Rules of the databases that cannot be started here, on answers in their servers' own form."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from cdc_assets.capture.preflight import binlog_rules, mongodb_rules, oracle_rules, sqlserver_rules
from cdc_assets.capture.preflight.inspection import Finding
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.source_declaration import UnaskedSource


def bad(findings: Iterable[Finding]) -> dict[str, str]:
    return {f"{f.level} {f.check} {f.subject}": f.mend or "" for f in findings if f.level != "ok"}


ORDERS = TableId("shop", "orders")
MYSQL: dict[str, Any] = {
    "variables": [
        ("log_bin", "ON"),
        ("binlog_format", "ROW"),
        ("binlog_row_image", "FULL"),
        ("binlog_expire_logs_seconds", "2592000"),
        ("gtid_mode", "ON"),
    ],
    "grants": [("GRANT SELECT, RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `cdc`@`%`",)],
    "tables": [("shop", "orders", "BASE TABLE", "InnoDB", "")],
    "keys": [("shop", "orders")],
}


def test_mysql() -> None:
    assert bad(binlog_rules.findings([ORDERS], MYSQL)) == {}
    changed = {
        "binlog_format": "STATEMENT",
        "binlog_row_image": "MINIMAL",
        "binlog_expire_logs_seconds": "3600",
        "gtid_mode": "OFF",
    }
    broken = {
        **MYSQL,
        "variables": [(name, changed.get(name, value)) for name, value in MYSQL["variables"]],
        "grants": [("GRANT SELECT ON *.* TO `cdc`@`%`",)],
        "keys": [],
    }
    found = bad(binlog_rules.findings([ORDERS, TableId("shop", "gone")], broken))
    assert found["fail binlog_format server"] == "SET GLOBAL binlog_format = 'ROW'"
    assert found["fail binlog_row_image server"] == "SET GLOBAL binlog_row_image = 'FULL'"
    assert found["warn retention server"] == "SET GLOBAL binlog_expire_logs_seconds = 604800"
    assert found["fail privileges server"] == "GRANT RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'cdc'@'%'"
    assert found["warn gtid server"].endswith(
        "gtid_mode = OFF_PERMISSIVE; SET GLOBAL gtid_mode = ON_PERMISSIVE; SET GLOBAL gtid_mode = ON"
    )
    assert set(found) > {"warn key shop.orders", "fail table shop.gone"}
    assert "warn key shop.orders" not in bad(binlog_rules.findings([ORDERS], broken, keyed=[ORDERS]))
    partial = {**MYSQL, "variables": [*MYSQL["variables"][1:], ("binlog_row_value_options", "PARTIAL_JSON")]}
    assert bad(binlog_rules.findings([ORDERS], partial)) == {
        "fail log_bin server": "log_bin = mysql-bin in my.cnf, without skip-log-bin; then restart the server",
        "fail binlog_row_value_options server": "SET GLOBAL binlog_row_value_options = ''",
    }


def test_a_signal_table_that_cdc_apply_makes_need_not_be_there() -> None:
    source = UnaskedSource.model_validate(
        {
            "source": "shop",
            "database": {"kind": "mysql", "host": "db", "user": "cdc", "password": {"secret": "shop"}},
            "reconciliation": {"signals": "ours.signals"},
            "tables": [{"name": "shop.orders"}],
        }
    )
    wanted = [ORDERS, TableId("ours", "signals")]

    def found(*grants: str, there: bool = False) -> list[tuple[str, str, str | None]]:
        more = {"grants": [*MYSQL["grants"], *((grant,) for grant in grants)]}
        more |= {"tables": [*MYSQL["tables"], ("ours", "signals", "BASE TABLE", "InnoDB", "")]} if there else {}
        told = binlog_rules.RULES.findings(source, wanted, {**MYSQL, **more}, "cdc")
        return [(f.level, f.check, f.mend) for f in told if f.subject == "ours.signals"]

    assert found() == [("warn", "signals", "GRANT CREATE, INSERT, DELETE ON `ours`.* TO 'cdc'@'%'; then cdc apply shop makes it")]
    assert found("GRANT CREATE, INSERT, DELETE ON `ours`.* TO `cdc`@`%`") == [("ok", "signals", None)]
    assert found(there=True) == [("fail", "privileges", "GRANT INSERT ON `ours`.`signals` TO 'cdc'@'%'")]


def test_mysql_tells_of_rows_that_foreign_keys_change() -> None:
    """They are not in its binlog before 9.6."""
    cascades = [("shop", "orders", "of`c", "CASCADE", "RESTRICT"), ("shop", "other", "x", "CASCADE", "CASCADE")]
    (finding,) = [f for f in binlog_rules.findings([ORDERS], {**MYSQL, "cascades": cascades}) if f.level != "ok"]
    assert (finding.level, finding.check, finding.subject) == ("fail", "cascades", "shop.orders")
    assert "foreign key of`c (ON DELETE CASCADE) changes its rows without a word in the binlog" in finding.message
    assert str(finding.mend).startswith("ALTER TABLE `shop`.`orders` DROP FOREIGN KEY `of``c`; ")
    text = """CREATE TABLE `orders` (
  `id` int(11) NOT NULL COMMENT ' ON DELETE CASCADE',
  CONSTRAINT `a``b` FOREIGN KEY (`id`) REFERENCES `p` (`id`) ON DELETE CASCADE ON UPDATE SET NULL,
  CONSTRAINT `b` FOREIGN KEY (`id`) REFERENCES `q` (`id`) ON DELETE NO ACTION,
  CONSTRAINT `c` FOREIGN KEY (`id`) REFERENCES `r` (`id`) ON UPDATE CASCADE
) ENGINE=InnoDB COMMENT='x'"""
    found = binlog_rules.cascades_of(ORDERS, text)
    assert [row[2:] for row in found] == [("a`b", "CASCADE", "SET NULL"), ("c", "RESTRICT", "CASCADE")]
    newer = [("version", "9.6.0"), *MYSQL["variables"]]
    assert bad(binlog_rules.findings([ORDERS], {**MYSQL, "variables": newer, "cascades": cascades})) == {}


def test_mysql_from_8_on_keeps_what_it_is_told() -> None:
    variables = {**dict(MYSQL["variables"]), "version": "9.7.4-2", "binlog_row_image": "MINIMAL", "server_id": "0"}
    status = [("binlog.000007", 158, "", "other,shop", "")]
    answers = {**MYSQL, "variables": [*variables.items()], "account": [("cdc@10.%",)], "grants": [], "filters": status}
    assert (binlog_rules.is_answerable("filters", answers), binlog_rules.is_answerable("filters_before_8_2", answers)) == (
        True,
        False,
    )
    assert bad(binlog_rules.findings([ORDERS], answers)) == {
        "fail binlog_row_image server": "SET PERSIST binlog_row_image = 'FULL'",
        "fail server_id server": "SET PERSIST server_id = 1",
        "fail privileges server": "GRANT RELOAD, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'cdc'@'10.%'",
        "fail binlog_filter shop": "correct binlog-ignore-db in my.cnf; then restart the server",
        "fail privileges shop.orders": "GRANT SELECT ON `shop`.`orders` TO 'cdc'@'10.%'",
    }
    only = {**MYSQL, "filters_before_8_2": [("binlog.000007", 158, "other", "")]}
    assert (binlog_rules.is_answerable("filters", only), binlog_rules.is_answerable("filters_before_8_2", only)) == (False, True)
    assert [*bad(binlog_rules.findings([ORDERS], only))] == ["fail binlog_filter shop"]


def test_mariadb_answers_alike() -> None:
    own = {"variables": [*MYSQL["variables"][:3], ("expire_logs_days", "10.000000"), ("gtid_domain_id", "0")]}
    grants = [("GRANT SELECT, RELOAD, REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `cdc`@`%`",)]
    assert bad(binlog_rules.findings([ORDERS], {**MYSQL, **own, "grants": grants})) == {}


def test_sqlserver() -> None:
    table = TableId("dbo", "O'Hara")
    good = {
        "database": [("shop", True, 1)],
        "agent": [("Running",)],
        "tables": [("dbo", "O'Hara", True, 1)],
        "instances": [("dbo", "O'Hara", "dbo_OHara", 0)],
        "jobs": [("capture", 0), ("cleanup", 10080)],
    }
    assert bad(sqlserver_rules.findings([table], good)) == {}
    off = {
        **good,
        "database": [("shop", False, 0)],
        "agent": [("Stopped",)],
        "tables": [("dbo", "O'Hara", False, 1)],
        "instances": [],
    }
    found = bad(sqlserver_rules.findings([table], {**off, "jobs": [("cleanup", 60)]}))
    assert found["fail database_cdc shop"] == "EXEC sys.sp_cdc_enable_db"
    assert found["fail snapshot_isolation shop"] == "ALTER DATABASE [shop] SET ALLOW_SNAPSHOT_ISOLATION ON"
    assert "N'O''Hara'" in found["fail table_cdc dbo.O'Hara"]
    assert "xp_servicecontrol N'START'" in found["fail agent server"]
    assert found["warn retention shop"] == "EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = 10080"
    behind = {**good, "instances": [("dbo", "O'Hara", "dbo_OHara", 2)]}
    assert "sp_cdc_enable_table" in bad(sqlserver_rules.findings([table], behind))["fail capture_instance dbo.O'Hara"]
    hidden = {**good, "instances": [], "jobs": [("cleanup", 10080)]}
    found = bad(sqlserver_rules.findings([table], hidden, user="o]k"))
    assert found["warn capture_instance dbo.O'Hara"] == "GRANT SELECT ON SCHEMA::cdc TO [o]]k]"
    assert found["fail capture_job shop"] == "EXEC sys.sp_cdc_add_job @job_type = N'capture'"
    both = {**good, "instances": [("dbo", "O'Hara", "old", 2), ("dbo", "O'Hara", "new", 0)]}
    assert "N'old'" in bad(sqlserver_rules.findings([table], both))["warn capture_instance dbo.O'Hara"]


def test_oracle() -> None:
    table = TableId("SHOP", "ORDERS")
    good = {
        "database": [("ARCHIVELOG", "YES", "NO", 500)],
        "tables": [("SHOP", "ORDERS", 1)],
        "log_groups": [("SHOP", "ORDERS", "ALL COLUMN LOGGING")],
        "redo": [(3, 1024)],
    }
    assert bad(oracle_rules.findings([table], good)) == {}
    broken = {**good, "database": [("NOARCHIVELOG", "NO", "NO", 5)], "log_groups": [], "redo": [(3, 50)]}
    found = bad(
        oracle_rules.findings([table, TableId("SHOP", "X" * 31)], {**broken, "tables": [*good["tables"], ("SHOP", "X" * 31, 0)]})
    )
    assert "ALTER DATABASE ARCHIVELOG" in found["fail archive_log database"]
    assert found["fail supplemental_minimal database"] == "ALTER DATABASE ADD SUPPLEMENTAL LOG DATA"
    assert found["fail supplemental_table SHOP.ORDERS"] == 'ALTER TABLE "SHOP"."ORDERS" ADD SUPPLEMENTAL LOG DATA (ALL) COLUMNS'
    assert set(found) > {"warn retention database", "warn redo_size database", f"fail name SHOP.{'X' * 31}"}


def batch(*documents: dict[str, Any]) -> dict[str, Any]:
    return {"cursor": {"firstBatch": [*documents], "id": 0}, "ok": 1.0}


def test_mongodb() -> None:
    table = TableId("shop", "orders")
    images = {"options": {"changeStreamPreAndPostImages": {"enabled": True}}}
    good = {
        "hello": {"setName": "rs0", "maxWireVersion": 21},
        "collections": {"shop": batch({"name": "orders", "type": "collection", **images})},
        "oplog_first": batch({"ts": SimpleNamespace(time=1_000_000)}),
        "oplog_last": batch({"ts": SimpleNamespace(time=1_000_000 + 200 * 3600)}),
    }
    assert bad(mongodb_rules.findings([table], good, pre_images=True)) == {}
    broken = {
        **good,
        "hello": {"maxWireVersion": 9},
        "collections": {"shop": batch({"name": "orders", "type": "collection", "options": {}})},
        "oplog_last": batch({"ts": SimpleNamespace(time=1_000_000 + 7200)}),
    }
    found = bad(mongodb_rules.findings([table, TableId("shop", "gone")], broken, pre_images=True))
    assert (
        found["fail pre_images shop.orders"]
        == 'db.getSiblingDB("shop").runCommand({collMod: "orders", changeStreamPreAndPostImages: {enabled: true}})'
    )
    assert "replSetResizeOplog" in found["warn oplog server"]
    assert set(found) > {"fail replica_set server", "fail version server", "fail collection shop.gone"}
    promised = {**broken, "server": {"oplogTruncation": {"oplogMinRetentionHours": 168.0}}}
    assert "warn oplog server" not in bad(mongodb_rules.findings([table], promised))
