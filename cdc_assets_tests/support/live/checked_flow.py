"""The check of the flow, from one run to the next."""

from __future__ import annotations

from typing import Any

from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.proof.capture_flow import Flow, Witness, measure_flow
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.live.live_mariadb import LiveMariaDb
from cdc_assets_tests.support.live.live_source import LiveSource


class Checked:
    """The check as it runs every few minutes: it starts from the last one that passed."""

    def __init__(self, live: LiveSource | LiveMariaDb, source: Source, witness: Witness) -> None:
        self.live, self.source, self.witness = live, source, witness
        self.baseline: dict[str, Any] | None = None

    def silent(self) -> dict[str, str]:
        with self.live.settings():
            found: Flow = measure_flow(
                self.source,
                witness=self.witness,
                core=KafkaCluster(self.live.bootstrap),
                connect=self.live.connect,
                previous=self.baseline,
            )
        if not found.silent:
            self.baseline = found.baseline
        return found.silent
