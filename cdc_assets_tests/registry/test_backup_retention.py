"""For how long a backup keeps epochs that have ended: never shorter than somebody may ask for them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cdc_assets.cli.cdc_command import app
from cdc_assets.registry.errors import RegistryError
from cdc_assets.registry.retention import backup_keep, keeps_all_for_history
from cdc_assets_tests.support.declared import declare_source

HEAD = """
source: shop
database: {kind: postgresql, host: localhost, dbname: shop, user: shop, password: {secret: shop}}
"""
BACKUP = "backup: {store: {kind: local, bucket: /tmp/b, prefix: lake}, keep: KEEP}\n"
ORDERS = "tables: [{name: public.orders}]\n"


def text(keep: str, more: str = "", tables: str = ORDERS) -> str:
    return HEAD + BACKUP.replace("KEEP", keep) + more + tables


def test_a_table_may_keep_more_less_or_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = (
        "tables: [{name: public.a}, {name: public.b, backup: {keep: 60d}}, {name: public.c, backup: {}}, "
        "{name: public.d, history: scd2}, {name: public.e, history: scd2, backup: {}}]"
    )
    source = declare_source(tmp_path, monkeypatch, text("90d", tables=tables))
    days = [90, 60, None, None, None]
    assert [backup_keep(source, table) for table in source.tables] == [each and timedelta(days=each) for each in days]
    assert [table.name for table in keeps_all_for_history(source)] == ["public.d"]
    said = CliRunner().invoke(app, ["validate"])
    assert (said.exit_code, "shop: d: all of the backup is kept, for the history (scd2)" in said.stdout) == (0, True)
    assert '"keeps_all_backup": {\n    "shop": [\n      "d"' in CliRunner().invoke(app, ["validate", "-o", "json"]).stdout


@pytest.mark.parametrize("more", ["", "drill: {every: 45d}\n", "bronze: {keep: 90d}\n", "cuts: {keep: 90d}\n"])
def test_as_long_as_the_window_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str) -> None:
    source = declare_source(tmp_path, monkeypatch, text("90d", more))
    assert backup_keep(source, source.tables[0]) == timedelta(days=90)


@pytest.mark.parametrize(
    ("declared", "sentence"),
    [
        (text("6d"), r"backup.keep: 6d is shorter than the restore window, 7d \(topics.retention\); declare keep: 7d or longer"),
        (text("30d", "drill: {every: 16d}\n"), r"30d is shorter than the restore window, 32d \(2 x drill.every\)"),
        (text("30d", "bronze: {keep: 31d}\n"), r"30d is shorter than the restore window, 31d \(bronze.keep\)"),
        (text("30d", "maintenance: {time_travel: 31d}\n"), r"31d \(maintenance.time_travel\)"),
        (text("30d", "cuts: {keep: 31d}\n"), r"31d \(cuts.keep\)"),
        (text("30d", "ledger: {allowed_lateness: 31d}\n"), r"31d \(ledger.allowed_lateness\)"),
        (text("30d", tables="tables: [{name: public.a, retention: 31d}]"), r"31d \(retention of public.a\)"),
        (
            text("30d", tables="tables: [{name: public.a, backup: {keep: 1d}}]"),
            r"backup.keep of public.a: 1d is shorter than the restore window, 7d .* then: cdc validate",
        ),
        (
            text("30d", tables="tables: [{name: public.a, history: scd2, backup: {keep: 30d}}]"),
            "backup.keep of public.a: a history has versions of every epoch, so its backup keeps all: take keep out",
        ),
        (
            HEAD + "tables: [{name: public.a, backup: {keep: 30d}}]",
            "backup.keep of public.a: the source declares no backup",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: str, sentence: str) -> None:
    with pytest.raises(RegistryError, match=sentence) as refused:
        declare_source(tmp_path, monkeypatch, declared)
    assert "shop.yaml" in str(refused.value)
