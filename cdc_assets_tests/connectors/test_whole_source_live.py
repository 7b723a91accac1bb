"""A source whose tables are refused leaves nothing on either Connect, whichever door it was brought through, and at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import dagster as dg
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from cdc_assets import names
from cdc_assets.defs.assets.topics import build_topic_assets
from cdc_assets.defs.chain import build_source_defs
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry_files.loader import load_source
from cdc_assets_tests.support.live.cdc import Cdc

pytestmark = pytest.mark.all

LONG = 60.0
"""Seconds: far below the two minutes for which a connector is waited for."""


@pytest.fixture
def cdc(make_cdc: Callable[[str], Cdc]) -> Iterator[Cdc]:
    cdc = make_cdc("whole")
    with cdc.live.connection() as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS public.whole (id int PRIMARY KEY)")
        connection.execute('CREATE TABLE IF NOT EXISTS public.twins (id int PRIMARY KEY, "Id" int)')
    yield cdc
    cdc.live.connect.delete("whole-capture")
    cdc.lake.connect.delete("whole-mirror")
    (cdc.folder / "whole.yaml").unlink()


def made(cdc: Cdc) -> set[str]:
    return {*cdc.live.connect.connectors(), *cdc.lake.connect.connectors()} & {"whole-capture", "whole-mirror"}


def test_a_source_is_judged_whole_before_anything_is_made(cdc: Cdc) -> None:
    began = time.monotonic()
    for tables, told in {
        ("public.whole", "public.nope"): "has no table public.nope",
        ("public.whole", "public.twins"): "public.twins: columns 'id' and 'Id' differ only by case",
    }.items():
        cdc.declare(*tables)
        capture, mirror = cdc.json("apply", "whole", code=1)
        assert told in capture["error"]
        assert mirror["error"] == "connector whole-mirror: left as it is, since source whole is refused"
        source = load_source(cdc.folder / "whole.yaml")
        defs = build_source_defs(source)
        with dg.DagsterInstance.ephemeral() as instance:
            for layers in (("connector", "topic", "mirror"), ("mirror",)):
                keys = [dg.AssetKey(names.asset_key("connector", source))] if "connector" in layers else []
                keys += [dg.AssetKey(names.asset_key(la, source, t)) for la in layers if la != "connector" for t in source.tables]
                chain = [asset for asset in defs.assets or () if isinstance(asset, dg.AssetsDefinition)]
                result = dg.materialize(
                    chain, selection=keys, instance=instance, resources={"platform": PlatformResource()}, raise_on_error=False
                )
                assert not result.success
    assert made(cdc) == set()
    assert time.monotonic() - began < LONG


def test_a_mirror_of_tables_without_a_row_is_not_waited_for(cdc: Cdc) -> None:
    cdc.declare("public.whole")
    began = time.monotonic()
    said = cdc("apply", "whole")
    assert time.monotonic() - began < LONG
    assert "whole-mirror: created, RUNNING, 0 tasks" in said
    assert "they come with their first record" in said
    assert "PostgreSQL" not in said


def test_a_tables_own_retention_is_that_of_its_topic(cdc: Cdc) -> None:
    """As the broker itself tells it: made so, and brought so where the topic is there."""
    admin = AdminClient({"bootstrap.servers": cdc.live.bootstrap})
    for declared, kept in (("retention: 30d", 30), ("retention: 31d", 31)):
        cdc.declare(f"public.whole, {declared}", "public.beside")
        topics = build_topic_assets(load_source(cdc.folder / "whole.yaml"))
        assert dg.materialize([topics], resources={"platform": PlatformResource()}).success
        asked = [ConfigResource(ConfigResource.Type.TOPIC, f"whole.public.{name}") for name in ("whole", "beside")]
        found = admin.describe_configs(asked)
        assert [int(found[each].result()["retention.ms"].value) / 86_400_000 for each in asked] == [kept, 7]
