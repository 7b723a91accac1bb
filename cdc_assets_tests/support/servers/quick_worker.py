"""A Connect worker of the tests: what it stops, it stops at once."""

from __future__ import annotations

from typing_extensions import override

from cdc_assets.stack.components.connect_worker import ConnectWorker


class QuickWorker(ConnectWorker):
    """Its consumers ask four times a second.

    The product's ask every two seconds (ADR 81), and one that is closed waits for its last answer: a connector and its task are
    each stopped so much later. The tests stop hundreds.
    """

    @override
    def _properties(self) -> dict[str, str]:
        return {**super()._properties(), "fetch.max.wait.ms": "250", "consumer.fetch.max.wait.ms": "250"}
