"""The chain of a source of topics: it starts at the topic, and has the checks that need no database."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.rhythms import build_rows_job, build_volumetry_job
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.registry.source_declaration import TopicSource

SOURCE: dict[str, Any] = {
    "source": "feeds",
    "kind": "topics",
    "owners": ["team:data"],
    "backup": {"store": {"kind": "s3", "bucket": "backups", "prefix": "lake"}},
    "tables": [{"name": "readings", "topic": "iot.readings", "envelope": "json", "columns": {"sensor": "text"}}],
}
_CHAIN = """\
topic/feeds/topic_readings <- nothing [kafka]
  checks: none
{mirror}bronze/feeds/bronze_readings <- {read} [bronze,delta,spark]
  checks: record_parity
silver/feeds/silver_readings <- bronze/feeds/bronze_readings [delta,silver,spark]
  checks: fresh, quarantine_empty, schema
backup/feeds/backup_readings <- bronze/feeds/bronze_readings [s3]
  checks: manifest_parity
ledger/feeds/ledger_readings <- silver/feeds/silver_readings [delta,ledger,spark]
  checks: bronze_fates, late_events, mirror_bronze{counted}
maintenance/feeds/maintenance_feeds <- silver/feeds/silver_readings [delta]
  checks: maintained
"""
_MIRROR = """\
mirror/feeds/mirror_readings <- topic/feeds/topic_readings [kafka,mirrormaker]
  checks: nothing_lost
"""
CHAIN = {
    "core": _CHAIN.format(mirror=_MIRROR, read="mirror/feeds/mirror_readings", counted=", topic_mirror"),
    "lake": _CHAIN.format(mirror="", read="topic/feeds/topic_readings", counted=""),
}


@pytest.mark.parametrize("cluster", ["core", "lake"])
def test_the_chain_starts_at_the_topic(cluster: str) -> None:
    source = TopicSource.model_validate({**SOURCE, "cluster": cluster})
    defs = dg.Definitions.merge(build_source_defs(source), dg.Definitions(resources={"platform": PlatformResource()}))
    graph = defs.get_repository_def().asset_graph
    order = {layer: at for at, layer in enumerate(("topic", "mirror", "bronze", "silver", "backup", "ledger", "maintenance"))}
    lines = []
    for key in sorted(graph.get_all_asset_keys(), key=lambda key: order[key.path[0]]):
        node = graph.get(key)
        parents = ", ".join(parent.to_user_string() for parent in node.parent_keys) or "nothing"
        checks = ", ".join(sorted(check.name for check in node.check_keys)) or "none"
        lines.append(f"{key.to_user_string()} <- {parents} [{','.join(sorted(node.kinds))}]\n  checks: {checks}\n")
    assert "".join(lines) == CHAIN[cluster]


def test_rows_are_compared_on_a_rhythm_of_their_own_where_it_is_declared() -> None:
    table = {"name": "readings", "topic": "t", "envelope": "json", "keys": ["sensor"], "columns": {"sensor": "text not null"}}
    declared = {"every": "6h", "on_difference": "warn"}
    source = TopicSource.model_validate({**SOURCE, "backup": None, "tables": [table], "reconciliation": declared})
    defs = dg.Definitions.merge(build_source_defs(source), dg.Definitions(resources={"platform": PlatformResource()}))
    silver = dg.AssetKey(["silver", "feeds", "silver_readings"])
    graph = defs.get_repository_def().asset_graph
    assert dg.AssetCheckKey(silver, "reconciled") in graph.get(silver).check_keys
    assert not graph.get_check_spec(dg.AssetCheckKey(silver, "reconciled")).blocking
    schedule = defs.resolve_schedule_def("reconcile_feeds_schedule")
    assert (schedule.cron_schedule, schedule.job.name) == ("0 */6 * * *", "reconcile_feeds")
    counted, compared = (build(source).selection.resolve_checks(graph) for build in (build_volumetry_job, build_rows_job))
    assert "reconciled" not in {key.name for key in counted}
    assert {key.name for key in compared} == {"reconciled"}


@pytest.mark.parametrize("name", ["marker", "signals", "standby"])
def test_settings_that_need_a_database_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"reconciliation.{name}: a source of topics has no database here"):
        TopicSource.model_validate({**SOURCE, "reconciliation": {name: "shop.t"}})
