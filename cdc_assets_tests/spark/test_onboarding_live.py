"""Tables taken into a running connector while they are written to: silver is what PostgreSQL holds."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession

from cdc_assets_tests.live_source import LiveSource
from cdc_assets_tests.onboarding.drive import cdc, ended, kill_at
from cdc_assets_tests.onboarding.ground import Ground, Writers, ground
from cdc_assets_tests.spark.lake import Lake, values


def folded(session: SparkSession, own: Ground, root: Path, *tables: str) -> dict[str, list[dict[str, object]]]:
    """Each table's silver, from its topic, through bronze."""
    delivered, answer = own.live.delivered(), {}
    for table in tables:
        lake = Lake(session, root / table)
        for partition, records in delivered[f"{own.live.name}.public.{table}"].items():
            lake.put(table, *records, partition=partition)
        lake.append(lake.all_of(table))
        spec = lake.spec(table)
        lake.fold(spec)
        answer[table] = sorted(values(spec.path), key=lambda row: str(row["id"]).zfill(12))
    return answer


def test_incremental_with_a_kill_in_the_middle(live: LiveSource, session: SparkSession, tmp_path: Path) -> None:
    with ground(live, tmp_path / "sources", "shop") as own:
        own.create("shop_new", 3000)
        with Writers(own.live, ["shop_new", "shop_old"], 6000) as writers:
            first = cdc("onboard", "shop", "public.shop_new", "-o", "json")
            assert kill_at(first, "shop", "snapshot", after=0.2)
            time.sleep(0.3)
            outcome = ended(cdc("onboard", "shop", "--resume", "-o", "json"))
            assert outcome["state"] == "done"
        counted = outcome["steps"]["verify"]["rows"]["public.shop_new"]
        assert counted["source"] == counted["topic"] > 2000
        assert writers.transactions > 100
        assert ended(cdc("onboard", "shop", "public.shop_new", "-o", "json"))["state"] == "nothing to do"
        assert folded(session, own, tmp_path, "shop_new") == {"shop_new": own.rows("shop_new")}
        text = own.file.read_text()
        assert "  # what was captured first\n" in text
        assert "{name: public.shop_old}  # stays\n  - {name: public.shop_new}\n" in text
