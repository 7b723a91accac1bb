"""`on_gap: resnapshot` from end to end: records removed before MirrorMaker, or bronze, had them; silver equals the source
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from cdc_assets.capture.log_position import carry_to_lake
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.capture_assets import mirror_check
from cdc_assets.defs.lake_assets import build_bronze_assets, build_silver_assets
from cdc_assets.registry import names
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.clusters import forget, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

TOPIC = "holey.public.holey"
COPY = f"core.{TOPIC}"


@dataclass
class Ground:
    """One table, captured and mirrored by the product's own connectors."""

    cdc: Cdc
    platform: Platform
    source: Source

    def change(self, *statements: str) -> None:
        with self.cdc.live.connection() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def materialize(self) -> dict[str, Any]:
        """Bronze's metadata, once silver is up to date."""
        carry_to_lake(Chain(self.platform, self.source), deadline=400)
        assets = [build_bronze_assets(self.source), build_silver_assets(self.source)]
        with dg.DagsterInstance.ephemeral() as instance:
            run = dg.materialize(assets, instance=instance, resources={"platform": self.platform})
        assert run.success
        (told,) = run.asset_materializations_for_node("cdc_bronze_holey")
        return {key: value.value for key, value in told.metadata.items()}

    def silver(self) -> list[tuple[int, str]]:
        found = values(names.silver_path(self.platform.lake, self.source, self.source.tables[0]))
        return sorted((row["id"], row["v"]) for row in found)

    def rows(self) -> list[tuple[int, str]]:
        """The oracle: the table itself."""
        with self.cdc.live.connection() as connection:
            return [(row[0], row[1]) for row in connection.execute("SELECT id, v FROM public.holey ORDER BY id")]


@pytest.fixture(scope="module")
def ground(
    make_cdc: Callable[[str], Cdc], remote: str, session: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    cdc = make_cdc("holey")
    with cdc.live.connection() as connection:
        connection.execute("CREATE TABLE public.holey (id int PRIMARY KEY, v text)")
        connection.execute("INSERT INTO public.holey SELECT i, 'first' FROM generate_series(1, 20) i")
    cdc.declare("public.holey", heartbeat="1s")
    file = cdc.folder / "holey.yaml"
    file.write_text(file.read_text() + "topics: {on_gap: resnapshot}\n")
    assert [row["summary"] for row in cdc.json("apply", "holey")] == ["created", "created"]
    source = load_source(file)
    assert isinstance(source, Source)
    root: Path = tmp_path_factory.mktemp("lake")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CDC_SPARK_REMOTE", remote)
        patch.setenv("CDC_LAKE", str(root))
        ground = Ground(cdc, Platform(), source)
        until(lambda: COPY in ground.platform.lake_kafka().states([COPY]))
        assert ground.materialize()["cdc/epoch"] == 0
        assert ground.silver() == ground.rows()
        yield ground
    cdc.lake.connect.delete("holey-mirror")
    cdc.live.connect.delete("holey-capture")


def test_what_bronze_has_missed_is_read_again(ground: Ground) -> None:
    """A delete in the hole has no event any more: the epoch's begin takes the row out."""
    ground.change("DELETE FROM public.holey WHERE id = 7", "UPDATE public.holey SET v = 'lost' WHERE id = 8")
    carry_to_lake(Chain(ground.platform, ground.source), deadline=400)
    forget(ground.cdc.lake.bootstrap, COPY, ground.platform.lake_kafka().states([COPY])[COPY].ends[0])
    ground.change("INSERT INTO public.holey VALUES (100, 'behind the hole')")
    told = ground.materialize()
    assert (told["cdc/epoch"], "are gone before bronze read" in told["cdc/read_again_after"]) == (1, True)
    assert ground.silver() == ground.rows()


def test_what_the_mirror_has_missed_is_read_again(ground: Ground) -> None:
    """As the schedule runs the check."""
    cdc = ground.cdc
    cdc.json("get", "mirrors", "holey")
    cdc("stop", "holey-mirror")
    ground.change("UPDATE public.holey SET v = 'not mirrored' WHERE id = 9")
    forget(cdc.live.bootstrap, TOPIC, cdc.live.delivered()[TOPIC][0][-1].offset + 1)
    cdc("resume", "holey-mirror")
    (checks,) = mirror_check.build(ground.source)
    job = dg.define_asset_job("checks", selection=dg.AssetSelection.checks(*checks.check_keys))
    definitions = dg.Definitions(asset_checks=[checks], jobs=[job], resources={"platform": ground.platform})
    with dg.DagsterInstance.ephemeral() as instance:
        run = definitions.resolve_job_def("checks").execute_in_process(instance=instance)
    (told,) = run.get_asset_check_evaluations()
    assert (told.passed, "Was, until the table was read again" in str(told.description)) == (True, True)
    ground.materialize()
    assert ground.silver() == ground.rows()
    (mirror,) = cdc.json("get", "mirrors", "holey")
    assert not mirror["repair"]


def test_a_stream_reads_again_what_bronze_has_missed(ground: Ground) -> None:
    """`mode: continuous` and `cdc stream` close the same hole, in a new epoch; a second stream finds nothing to do."""
    before = max(values(names.bronze_path(ground.platform.lake, ground.source)), key=lambda row: row["epoch"])["epoch"]
    ground.change("DELETE FROM public.holey WHERE id = 11", "UPDATE public.holey SET v = 'lost again' WHERE id = 12")
    carry_to_lake(Chain(ground.platform, ground.source), deadline=400)
    forget(ground.cdc.lake.bootstrap, COPY, ground.platform.lake_kafka().states([COPY])[COPY].ends[0])
    ground.change("INSERT INTO public.holey VALUES (101, 'behind the second hole')")
    carry_to_lake(Chain(ground.platform, ground.source), deadline=400)
    ground.cdc("stream", "holey", "--until-caught-up")
    assert ground.silver() == ground.rows()
    epochs = {row["epoch"] for row in values(names.bronze_path(ground.platform.lake, ground.source))}
    assert max(epochs) == before + 1
    ground.cdc("stream", "holey", "--until-caught-up")
    assert ground.silver() == ground.rows()
