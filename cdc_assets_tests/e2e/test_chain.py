"""The whole chain on real components: live writes in, silver equal to PostgreSQL row by row, damage found."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.e2e.source_rows import binlog_rows, current_versions, silver_rows, source_rows
from cdc_assets_tests.support.lakehouse import ROOT, Lakehouse
from cdc_assets_tests.support.modes import open_to_others, private_files

if TYPE_CHECKING:
    from deltalake import DeltaTable

pytestmark = pytest.mark.e2e

TABLES = [
    ("world", "country"),
    ("world", "city"),
    ("bank", "pgbench_accounts"),
    ("bank", "pgbench_branches"),
    ("bank", "pgbench_tellers"),
    ("bank", "pgbench_history"),
]
SHOP = ("shop", "shop__orders")
HISTORY = ("world", "country")
CITY = "INSERT INTO city (geonameid, name, country, admin1, latitude, longitude, population, timezone, alternate_names) VALUES "


def test_up_ends_with_every_check_passed(lakehouse: Lakehouse) -> None:
    assert "failed" not in lakehouse.up_output
    for _, table in (*TABLES, SHOP):
        assert table in lakehouse.up_output


def test_silver_equals_the_source_row_by_row_after_live_changes(lakehouse: Lakehouse) -> None:
    traffic = subprocess.Popen(
        [sys.executable, "-m", "cdc_assets.cli", "traffic", "--rate", "50", "--seconds", "15"],
        cwd=ROOT,
        env=lakehouse.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    with lakehouse.connect("world") as world:
        world.execute(CITY + "(-10, 'Añb''\"\\ 中', 'BR', '', -1.5, 179.99999, 9223372036854775807, 'x', '{a,NULL,\"b,c\"}')")
        world.execute(CITY + "(-11, 'short-lived', 'BR', '', 0, 0, 0, 'x', '{}')")
        world.execute("UPDATE city SET population = population + 1 WHERE geonameid % 50 = 0")
        # Larger than every default on the way: producers, two clusters, the mirror and Spark. Digits hardly compress.
        world.execute(CITY + "(-13, %s, 'BR', '', 0, 0, 0, 'x', '{}')", [random.randbytes(2_500_000).hex()])
        world.execute("DELETE FROM city WHERE geonameid = -11 OR geonameid % 1000 = 7")
        world.execute("UPDATE city SET geonameid = -12 WHERE geonameid = -10")
        with world.transaction():  # two keys change places
            world.execute("UPDATE country SET iso = 'X1' WHERE iso = 'AQ'")
            world.execute("UPDATE country SET iso = 'AQ' WHERE iso = 'BV'")
            world.execute("UPDATE country SET iso = 'BV' WHERE iso = 'X1'")
        with world.transaction(force_rollback=True):
            world.execute("DELETE FROM city")
    lakehouse.mariadb.execute(
        "INSERT INTO shop.orders VALUES (18446744073709551615, 'Añb''\"\\\\ 中😀', -0.0000000001, NULL, NULL, 1)",
        "UPDATE shop.orders SET price = price + 0.0000000001, state = 'paid' WHERE id % 50 = 0",
        "UPDATE shop.orders SET id = id + 1000 WHERE id = 7",
        "DELETE FROM shop.orders WHERE id % 100 = 3",
    )
    assert traffic.wait(timeout=120) == 0
    waited = json.loads(lakehouse.cdc("wait", "--timeout", "400", "-o", "json").stdout)["sources"]
    for source, table in TABLES:
        with lakehouse.connect(source) as connection:
            columns, expected = source_rows(connection, table)
        found = silver_rows(lakehouse.silver(source, table), columns, version=waited[source]["tables"][table]["version"])
        assert found == expected, (
            f"{source}.{table}: {list((expected - found).items())[:3]} {list((found - expected).items())[:3]}"
        )
        assert expected.total() > 0
        if (source, table) == HISTORY:
            told = waited[source]["tables"][table]["history"]
            assert told["path"] == str(lakehouse.history(*HISTORY))
            assert current_versions(lakehouse.history(*HISTORY), columns, version=told["version"]) == expected
    columns, expected = binlog_rows(lakehouse.mariadb, "shop.orders")
    assert silver_rows(lakehouse.silver(*SHOP), columns) == expected
    assert expected.total() == 500 + 1 - 5
    for chosen in ("world/city", "bank/pgbench_history"):
        ledger = json.loads(lakehouse.cdc("ledger", chosen, "--count", "-o", "json").stdout)
        assert ledger["balanced"]
        assert ledger["total"]["topic"] == ledger["total"]["bronze"] > 0
        assert ledger["total"]["unaccounted"] == 0


def test_small_work_is_done_in_tasks(lakehouse: Lakehouse) -> None:
    """The sensors' runs have changed these tables by delta-rs, and none of them by a plan of Spark's alone."""
    lake = Path(lakehouse.addresses["CDC_LAKE"])
    for table in ("bronze/world", "silver/world/city", "silver/bank/pgbench_tellers", "silver/shop/shop__orders"):
        commits = [file.read_text(encoding="utf-8") for file in (lake / table / "_delta_log").glob("*.json")]
        assert [text for text in commits if '"engineInfo":"delta-rs' in text or '"engineInfo": "cdc_assets"' in text], table


def launch(lakehouse: Lakehouse, selection: str) -> subprocess.CompletedProcess[str]:
    """As a person does on the running stack, whose own instance then shows the run."""
    exports = lakehouse.cdc("env").stdout
    script = f"{exports}\ncd {shlex.quote(str(ROOT))} && exec dg launch --assets {shlex.quote(selection)}"
    ours = ("CDC_", "DAGSTER_", "AWS_", "PYTHONPATH")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {"PATH": "/usr/bin:/bin"}
    command = ["sh", "-euc", script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)


def test_a_chain_materializes_in_ci_and_is_healed(lakehouse: Lakehouse, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    chain = '+key:"silver/world/silver_country" or key:"backup/world/backup_country"'
    good = lakehouse.materialize(tmp_path, chain)
    assert good.returncode == 0, good.stdout[-3000:] + good.stderr[-3000:]
    for check in ("connector_running", "record_parity", "reconciled", "history_reconciled", "manifest_parity"):
        assert f"'{check}'" in good.stdout + good.stderr

    table = DeltaTable(str(lakehouse.silver("world", "country")))
    whole = table.version()
    with private_files():
        table.delete("iso = 'BR'")  # planted: a row that silver has lost
    history = DeltaTable(str(lakehouse.history(*HISTORY)))
    right = versions_of(history, "AQ")
    # planted: what a row was first
    with private_files():
        history.update(predicate=f"_cdc_position = '{right[0]['_cdc_position']}'", updates={"capital": "'Vostok'"})
    try:
        told = lakehouse.cdc("reconcile", "world.country", "-o", "json", check=False)
        assert told.returncode == 1
        (difference,) = json.loads(told.stdout)[0]["differences"]
        assert (difference["key"], difference["kind"], difference["where"]) == ("2:BR;", "missing", "silver")
        told_of = json.loads(told.stdout)[0]["history"]
        assert [(d["key"], d["where"], d["columns"]) for d in told_of["differences"]] == [
            ("2:AQ;", "history", ["capital"]),
            ("2:BR;", "silver", []),
        ]
        healed = json.loads(lakehouse.cdc("reconcile", "world.country", "--heal", "-o", "json").stdout)
        assert [(r["verdict"], r["history"]["verdict"], r["history"]["healed"]) for r in healed] == [("equal", "equal", 1)]
        assert versions_of(history, "AQ") == right
    finally:
        with private_files():
            DeltaTable(str(lakehouse.silver("world", "country"))).restore(whole)
    mended = launch(lakehouse, 'key:"silver/world/silver_country"')
    assert mended.returncode == 0, mended.stdout[-3000:] + mended.stderr[-3000:]


def versions_of(history: DeltaTable, iso: str) -> list[dict[str, Any]]:
    """All versions of a country's row, as the newest version of the table has them."""
    history.update_incremental()
    found = [row for row in history.to_pyarrow_table().to_pylist() if row["iso"] == iso]
    return sorted(found, key=lambda row: row["_valid_from"])


def test_status_gives_every_address_and_no_secret(lakehouse: Lakehouse) -> None:
    status = json.loads(lakehouse.cdc("status", "-o", "json").stdout)
    assert status["healthy"] is True
    for name in (
        "CDC_CORE_BOOTSTRAP",
        "CDC_LAKE_BOOTSTRAP",
        "CDC_CORE_CONNECT",
        "CDC_LAKE_CONNECT",
        "CDC_SPARK_REMOTE",
        "AWS_ENDPOINT_URL_S3",
        "CDC_DAGSTER_URL",
        "CDC_LAKE",
        "dsn_world",
        "dsn_bank",
    ):
        assert status["addresses"][name]
    tables = {*TABLES, SHOP, *((("plant", f"plant__{t}") for t in ("parts", "tills", "safes")) if lakehouse.mysql else ())}
    assert {(row["source"], row["table"]) for row in status["tables"]} == tables
    assert all(row["error"] is None for row in status["tables"])
    lags = {(row["source"], row["table"]): row["history_lag"] for row in status["tables"]}
    assert lags == {**dict.fromkeys(tables), HISTORY: 0}
    secrets = [file.read_text().strip() for file in (lakehouse.home / "secrets").iterdir()]
    # GCS's address carries its key.
    secrets += [key.read_text().strip() for key in (lakehouse.home / "private").glob("gcs_key")]
    text = json.dumps(status)
    assert len(secrets) >= 2
    assert not [secret for secret in secrets if secret in text]


def test_no_secret_is_in_any_log_or_rest_answer(lakehouse: Lakehouse) -> None:
    import httpx

    secrets = [file.read_text().strip() for file in (lakehouse.home / "secrets").iterdir()]
    seen = [file.read_text(errors="replace") for file in (lakehouse.home / "logs").rglob("*") if file.is_file()]
    for cluster in ("CDC_CORE_CONNECT", "CDC_LAKE_CONNECT"):
        url, auth = lakehouse.addresses[cluster], ("cdc", lakehouse.private("connect_password"))
        answer = httpx.get(f"{url}/connectors?expand=info&expand=status", auth=auth, trust_env=False)
        assert "tasks.max" in answer.text
        seen.append(answer.text)
    assert len(seen) > 8
    assert not [secret for secret in secrets for text in seen if secret in text]


def test_nothing_that_the_chain_has_written_is_readable_by_others(lakehouse: Lakehouse) -> None:
    supervisor = json.loads((lakehouse.home / "state.json").read_text())["state"]["supervisor"]
    assert list(lakehouse.silver("world", "city").glob("**/*.parquet"))
    assert open_to_others(lakehouse.home, [supervisor]) == []


def test_up_again_changes_nothing(lakehouse: Lakehouse) -> None:
    before = json.loads(lakehouse.cdc("status", "-o", "json", "--no-tables").stdout)
    lakehouse.cdc("up", "--no-main-job")
    after = json.loads(lakehouse.cdc("status", "-o", "json", "--no-tables").stdout)
    assert [c["pid"] for c in after["components"]] == [c["pid"] for c in before["components"]]
    assert after["addresses"] == before["addresses"]
