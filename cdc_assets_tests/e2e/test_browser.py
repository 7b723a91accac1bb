"""What a person sees: the chain of world/city in the lineage, its checks green, its evidence, the sensor at work."""

from __future__ import annotations

from typing import Any

import pytest

from cdc_assets.registry.names import LAYERS
from cdc_assets_tests.support.lakehouse import PAGE_TIMEOUT_MS, Lakehouse

pytestmark = [pytest.mark.e2e, pytest.mark.browser]


def test_the_chain_is_in_the_lineage(lakehouse: Lakehouse, page: Any) -> None:
    from playwright.sync_api import expect

    page.goto(f"{lakehouse.addresses['CDC_DAGSTER_URL']}/locations/cdc_assets/asset-groups/world/lineage")
    # Kinds are shown from a certain zoom on.
    for kind in ("debezium", "mirrormaker", "bronze", "silver", "S3"):
        page.get_by_text(kind, exact=False).first.wait_for()
    # A box shows the last part of its key.
    for box in ("connector_world", *(f"{layer}_city" for layer in LAYERS if layer != "connector")):
        expect(page.get_by_text(box, exact=True)).to_have_count(1, timeout=PAGE_TIMEOUT_MS)


@pytest.mark.parametrize(
    ("asset", "check"),
    [
        ("silver/world/silver_city", "reconciled"),
        ("bronze/world/bronze_city", "record_parity"),
        ("backup/world/backup_city", "manifest_parity"),
    ],
)
def test_its_checks_are_green_and_show_their_evidence(lakehouse: Lakehouse, page: Any, asset: str, check: str) -> None:
    page.goto(f"{lakehouse.addresses['CDC_DAGSTER_URL']}/assets/{asset}?view=checks")
    page.get_by_text(check).first.wait_for()
    page.get_by_text("Succeeded").first.wait_for()
    page.get_by_text("cdc/").first.wait_for()


def test_the_sensor_runs(lakehouse: Lakehouse, page: Any) -> None:
    page.goto(f"{lakehouse.addresses['CDC_DAGSTER_URL']}/locations/cdc_assets/sensors/offsets_world")
    page.get_by_text("offsets_world").first.wait_for()
    page.get_by_text("Running").first.wait_for()


@pytest.mark.all
def test_the_boxes_of_an_onboarding_can_be_told_apart(lakehouse: Lakehouse, page: Any) -> None:
    page.goto(f"{lakehouse.addresses['CDC_DAGSTER_URL']}/locations/cdc_assets/jobs/onboard_incremental")
    for box in ("begin", "preflight", "snapshot", "verify", "finish"):
        page.get_by_text(box, exact=True).first.wait_for()


@pytest.mark.all
def test_a_comment_of_the_source_is_at_its_column(lakehouse: Lakehouse, page: Any) -> None:
    page.goto(f"{lakehouse.addresses['CDC_DAGSTER_URL']}/assets/silver/world/silver_city")
    page.get_by_text("Degrees, WGS 84; south is negative.").first.wait_for()
