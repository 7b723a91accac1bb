"""A topic that is deleted while its offsets are asked for is told as gone at once, and the other topics' offsets are told."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_source import LiveSource

pytestmark = pytest.mark.all

STAYS, GOES, ANEW = "vanish.stays", "vanish.goes", "vanish.anew"


class LateCluster(KafkaCluster):
    """Its first answer about topics is as old as the deletion of two of them."""

    late = False

    def _describe(self, topics: Sequence[str]) -> dict[str, Any]:
        found = super()._describe(topics)
        if self.late:
            self.late = False
            for name in (GOES, ANEW):
                self.delete_topic(name)
            until(lambda: self.existing([GOES, ANEW]) == set())
            make(self, ANEW)
            until(lambda: self.existing([ANEW]) == {ANEW})
        return found


def make(cluster: KafkaCluster, name: str) -> None:
    cluster.ensure_topic(name, partitions=2, retention_ms=604_800_000, replication_factor=1)


@pytest.mark.stack
@pytest.mark.parametrize("ask", [KafkaCluster.states, KafkaCluster.high_watermarks])
def test_they_are_left_out_at_once(live: LiveSource, ask: Any) -> None:
    cluster = LateCluster(live.bootstrap, timeout=60)
    for name in (STAYS, GOES, ANEW):
        make(cluster, name)
    until(lambda: cluster.existing([STAYS, GOES, ANEW]) == {STAYS, GOES, ANEW})
    cluster.late, begun = True, time.monotonic()
    found = ask(cluster, [STAYS, GOES, ANEW])
    assert set(found) == {STAYS}
    assert time.monotonic() - begun < 30
    assert set(ask(cluster, [STAYS, GOES, ANEW])) == {STAYS, ANEW}
