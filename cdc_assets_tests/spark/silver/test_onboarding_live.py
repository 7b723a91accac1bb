"""Tables taken into a running connector while they are written to: silver is what PostgreSQL holds."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from cdc_assets.capture.onboarding.onboarding_state import find_source
from cdc_assets.capture.source_columns import catalogue_of
from cdc_assets.chain.bronze_append import append, look
from cdc_assets.chain.fold_specs import silver_spec
from cdc_assets.cli.cdc_command import app
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets_tests.support.lake.lake import Lake, values
from cdc_assets_tests.support.live.clusters import forget, until
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.onboarding.drive import cdc, ended, kill_at
from cdc_assets_tests.support.onboarding.ground import Ground, Writers, ground


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


@pytest.mark.all
def test_incremental_with_a_kill_in_the_middle(live: LiveSource, session: SparkSession, tmp_path: Path) -> None:
    with ground(live, tmp_path / "sources", "shop") as own:
        own.create("shop_new", 3000)
        with Writers(own.live, ["shop_new", "shop_old"], 6000) as writers:
            first = cdc("onboard", "shop", "public.shop_new", "-o", "json")
            assert kill_at(first, "shop", "snapshot", after=0.2)
            time.sleep(0.3)
            outcome = ended(cdc("onboard", "shop", "--resume", "-o", "json"))
            assert outcome["state"] == "done"
            until(lambda: writers.transactions > 100)
        counted = outcome["steps"]["verify"]["rows"]["public.shop_new"]
        assert counted["source"] == counted["topic"] > 2000
        assert ended(cdc("onboard", "shop", "public.shop_new", "-o", "json"))["state"] == "nothing to do"
        assert folded(session, own, tmp_path, "shop_new") == {"shop_new": own.rows("shop_new")}
        text = own.file.read_text()
        assert "  # what was captured first\n" in text
        assert "{name: public.shop_old}  # stays\n  - {name: public.shop_new}\n" in text


@pytest.mark.all
def test_what_the_lakes_topic_has_lost_is_read_again_in_a_new_epoch(
    live: LiveSource, session: SparkSession, remote: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark.silver import fold_job as silver

    monkeypatch.setenv("CDC_SPARK_REMOTE", remote)
    monkeypatch.setenv("CDC_LAKE", str(tmp_path / "lake"))
    with ground(live, tmp_path / "sources", "gap") as own:
        platform, source = Platform(), find_source("gap")
        (table,) = source.tables
        topic, lake = names.lake_topic(source, table), platform.lake_kafka()

        def caught_up() -> dict[int, tuple[int, int]]:
            own.live.delivered()
            # Offsets do not say it: transactions have markers. A delete and its tombstone are told by both.
            until(lambda: topic in lake.states([topic]) and last(topic) == last(names.topic(source, table)))
            return lake.states([topic])[topic].ranges

        def last(of: str) -> list[tuple[bytes | None, bytes | None]]:
            return [(r.key, r.value) for r in lake.records(of, lake.states([of])[of].ranges)][-2:]

        def fold() -> list[dict[str, object]]:
            found = look(Chain(platform, source), [table])
            append(Chain(platform, source), found, "test", print)
            spec = silver_spec(platform.lake, source, table, catalogue_of(Chain(platform, source), [table])[table.id])
            silver.run(session, spec)
            return sorted(values(spec.path), key=lambda row: int(str(row["id"])))

        def lose(upto: int) -> None:
            """Of these changes the lake's topic keeps nothing, and bronze has read nothing."""
            with own.live.connection() as connection:
                connection.execute("DELETE FROM gap_old WHERE id < %s", [upto])
                connection.execute("UPDATE gap_old SET v = v || ' lost' WHERE id = 50")
            end = caught_up()[0][1]
            forget(own.live.bootstrap, topic, end)
            until(lambda: lake.states([topic])[topic].ranges[0][0] == end)

        # Before bronze had read anything of the topic: its snapshot's first rows are in no record any more.
        begin = caught_up()[0][0] + 3
        forget(own.live.bootstrap, topic, begin)
        until(lambda: lake.states([topic])[topic].ranges[0][0] == begin)
        assert "offsets 0 to 2 are gone before bronze read them" in look(Chain(platform, source), [table]).gaps[topic]
        first = CliRunner().invoke(app, ["repair", "bronze", "gap", "gap_old"], catch_exceptions=False)
        assert "read public.gap_old again; bronze goes on in epoch 0" in first.output, first.output
        assert fold() == own.rows("gap_old")
        lose(10)
        assert "are gone before bronze read them" in look(Chain(platform, source), [table]).gaps[topic]
        planned = CliRunner().invoke(app, ["repair", "bronze", "gap", "gap_old", "--dry-run"])
        assert "would read public.gap_old again; bronze goes on in epoch 1" in planned.output
        done = CliRunner().invoke(app, ["repair", "bronze", "gap", "gap_old"], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        # The deletes are in no record any more.
        assert fold() == own.rows("gap_old")
        again = CliRunner().invoke(app, ["repair", "bronze", "gap", "gap_old", "-o", "json"])
        assert json.loads(again.stdout) == {**json.loads(again.stdout), "gap": None, "epoch": 1, "repaired": False}
        # Deleted while nobody captured it: no event says so, and neither does what is read again.
        publication = names.publication_name(source)
        with own.live.connection() as connection:
            connection.execute(f'ALTER PUBLICATION "{publication}" DROP TABLE gap_old'.encode())
            connection.execute("DELETE FROM gap_old WHERE id BETWEEN 20 AND 28")
            connection.execute(f'ALTER PUBLICATION "{publication}" ADD TABLE gap_old'.encode())
        outcome = ended(cdc("onboard", "gap", "public.gap_old", "--again", "-o", "json"), code=1)
        assert outcome["steps"]["verify"]["stranded"] == {"public.gap_old": 5}
        caught_up()
        assert len(fold()) == len(own.rows("gap_old")) + 5
        done = CliRunner().invoke(app, ["repair", "bronze", "gap", "gap_old", "--anew"], catch_exceptions=False)
        assert "bronze goes on in epoch 2" in done.output
        assert fold() == own.rows("gap_old")
