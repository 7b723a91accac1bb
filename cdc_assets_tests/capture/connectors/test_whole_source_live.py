"""A source that is refused leaves nothing on either Connect, whichever door it was brought through, and at once; a table that is
refused leaves the others to run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import dagster as dg
import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from cdc_assets.capture.connectors.declared_connectors import not_listed, tables_in_list
from cdc_assets.defs.capture_assets import build_topic_assets
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.registry import names
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import BaseSource
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
        connection.execute("DROP TABLE IF EXISTS public.nope")
    yield cdc
    if cdc.live.connect.config("whole-capture") is not None:
        # Another test's connector of that name begins anew.
        cdc.live.connect.stop("whole-capture")
        cdc.live.connect.reset_offsets("whole-capture")
    cdc.live.connect.delete("whole-capture")
    cdc.lake.connect.delete("whole-mirror")
    (cdc.folder / "whole.yaml").unlink()


def made(cdc: Cdc) -> set[str]:
    return {*cdc.live.connect.connectors(), *cdc.lake.connect.connectors()} & {"whole-capture", "whole-mirror"}


def test_a_source_is_judged_whole_before_anything_is_made(cdc: Cdc) -> None:
    began = time.monotonic()
    for table, told in {
        "public.nope": "public.nope: table: does not exist",
        "public.twins": "public.twins: columns: columns 'id' and 'Id' differ only by case",
    }.items():
        cdc.declare(table)
        capture, mirror = cdc.json("apply", "whole", code=1)
        assert told in capture["error"]
        assert mirror["error"] == "connector whole-mirror: left as it is, since source whole is refused"
        source = load_source(cdc.folder / "whole.yaml")
        for layers in (("connector", "topic", "mirror"), ("mirror",)):
            assert not materialize(source, layers).success
    assert made(cdc) == set()
    assert time.monotonic() - began < LONG


def materialize(source: BaseSource, layers: Sequence[str]) -> dg.ExecuteInProcessResult:
    keys = [dg.AssetKey(names.asset_key("connector", source))] if "connector" in layers else []
    keys += [dg.AssetKey(names.asset_key(la, source, t)) for la in layers if la != "connector" for t in source.tables]
    chain = [asset for asset in build_source_defs(source).assets or () if isinstance(asset, dg.AssetsDefinition)]
    with dg.DagsterInstance.ephemeral() as instance:
        return dg.materialize(
            chain, selection=keys, instance=instance, resources={"platform": PlatformResource()}, raise_on_error=False
        )


def test_tables_that_cannot_be_captured_are_left_out_and_the_others_run(cdc: Cdc) -> None:
    """Through both doors; a table that is mended is taken in by the next apply."""
    cdc.declare("public.whole", "public.nope", "public.twins")
    capture, _ = cdc.json("apply", "whole", code=1)
    assert (capture["summary"], capture["state"]) == ("created", "RUNNING")
    told = capture["error"].splitlines()
    assert [line.partition(" is left out, the others are captured: ")[0] for line in told] == [
        "table public.nope",
        "table public.twins",
    ]
    assert "columns 'id' and 'Id' differ only by case" in told[1]
    source = load_source(cdc.folder / "whole.yaml")
    assert materialize(source, ["connector"]).success
    running = cdc.live.connect.config("whole-capture")
    assert running is not None
    assert tables_in_list(source, running) == ["public.whole"]
    report = cdc.json("preflight", "whole", code=1)[0]
    assert {f["subject"] for f in report["findings"] if f["level"] == "fail"} >= {"public.nope", "public.twins"}
    assert "None" not in cdc("preflight", "whole", code=1)
    with cdc.live.connection() as connection:
        connection.execute('ALTER TABLE public.twins DROP "Id"')
        connection.execute("CREATE TABLE public.nope (id int PRIMARY KEY)")
    capture, _ = cdc.json("apply", "whole")
    assert (capture["error"], capture["tables_to_onboard"]) == (None, "public.nope public.twins")
    assert not_listed(source, cdc.live.connect.config("whole-capture")) == ""


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
