"""What several tiers share: one PostgreSQL with Debezium for the whole session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdc_assets_tests.live_source import LiveSource, live_source


@pytest.fixture(scope="session")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSource]:
    """PostgreSQL with Debezium; a test takes a connector of its own: `replace(live, name=...)`."""
    with live_source(tmp_path_factory.mktemp("live")) as source:
        yield source
