"""The capturing connector's config, by the kind of the source's database."""

from __future__ import annotations

from cdc_assets.connectors import mariadb, postgresql
from cdc_assets.registry.models import Source

CONFIGS = {"postgresql": postgresql.capture_config, "mariadb": mariadb.capture_config}


def capture_config(source: Source) -> dict[str, str]:
    """The whole config of `<source>-capture`."""
    return CONFIGS[source.database.kind](source)
