"""The chain of a source of topics: it starts at the topic, and has the checks that need no database."""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest

from cdc_assets.assets.chain import build_source_defs
from cdc_assets.registry.topic_source import TopicSource
from cdc_assets.resources.platform import Platform

SOURCE: dict[str, Any] = {
    "source": "feeds",
    "kind": "topics",
    "owners": ["team:data"],
    "backup": {"store": {"kind": "s3", "bucket": "backups", "prefix": "lake"}},
    "tables": [{"name": "readings", "topic": "iot.readings", "envelope": "json", "columns": {"sensor": "text"}}],
}
CHAIN = {
    "core": """\
topic/feeds/readings <- nothing [kafka] checks: none
mirror/feeds/readings <- topic/feeds/readings [kafka,mirrormaker] checks: nothing_lost
bronze/feeds/readings <- mirror/feeds/readings [bronze,delta,spark] checks: record_parity
silver/feeds/readings <- bronze/feeds/readings [delta,silver,spark] checks: quarantine_empty, schema
backup/feeds/readings <- bronze/feeds/readings [s3] checks: manifest_parity
ledger/feeds/readings <- silver/feeds/readings [delta,ledger,spark] checks: bronze_fates, late_events, mirror_bronze, topic_mirror
""",
    "lake": """\
topic/feeds/readings <- nothing [kafka] checks: none
bronze/feeds/readings <- topic/feeds/readings [bronze,delta,spark] checks: record_parity
silver/feeds/readings <- bronze/feeds/readings [delta,silver,spark] checks: quarantine_empty, schema
backup/feeds/readings <- bronze/feeds/readings [s3] checks: manifest_parity
ledger/feeds/readings <- silver/feeds/readings [delta,ledger,spark] checks: bronze_fates, late_events, mirror_bronze
""",
}


@pytest.mark.parametrize("cluster", ["core", "lake"])
def test_the_chain_starts_at_the_topic(cluster: str) -> None:
    source = TopicSource.model_validate({**SOURCE, "cluster": cluster})
    defs = dg.Definitions.merge(build_source_defs(source), dg.Definitions(resources={"platform": Platform()}))
    graph = defs.get_repository_def().asset_graph
    order = {layer: at for at, layer in enumerate(("topic", "mirror", "bronze", "silver", "backup", "ledger"))}
    lines = []
    for key in sorted(graph.get_all_asset_keys(), key=lambda key: order[key.path[0]]):
        node = graph.get(key)
        parents = ", ".join(parent.to_user_string() for parent in node.parent_keys) or "nothing"
        checks = ", ".join(sorted(check.name for check in node.check_keys)) or "none"
        lines.append(f"{key.to_user_string()} <- {parents} [{','.join(sorted(node.kinds))}] checks: {checks}\n")
    assert "".join(lines) == CHAIN[cluster]
