"""A connector that works for a while beside a source's own: by the same config, under a name and with leftovers of its own."""

from __future__ import annotations

from collections.abc import Sequence

from cdc_assets import names
from cdc_assets.connectors.capture import config_of_kind
from cdc_assets.connectors.kept_settings import beside_settings, keep_running
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import CapturedSource

_OF_THE_OWN_ONE = ("signal.", "heartbeat.")


def beside_config(source: CapturedSource, tables: Sequence[Table]) -> dict[str, str]:
    """Of these tables alone. It takes no signals, and its schema history, where its kind has one, is another topic."""
    alone = source.model_copy(update={"tables": tuple(tables)})
    config = keep_running(beside_settings(alone, config_of_kind(alone)), None)
    kept = {key: value for key, value in config.items() if not key.startswith(_OF_THE_OWN_ONE)}
    history = {
        "schema.history.internal.kafka.topic": names.temporary_schema_history_topic(source),
        "schema.history.internal.store.only.captured.tables.ddl": "true",
        "schema.history.internal.store.only.captured.databases.ddl": "true",
    }
    return {
        **kept,
        "name": names.temporary(config["name"]),
        **(history if names.has_schema_history(source) else {}),
        # Two connectors with one topic prefix in one worker would register one and the same JMX bean.
        "custom.metric.tags": "role=onboard",
    }


def initial_only_config(source: CapturedSource, tables: Sequence[Table]) -> dict[str, str]:
    """A connector that reads these tables once into their topics, beside the source's own, and streams nothing."""
    return {**beside_config(source, tables), "snapshot.mode": "initial_only"}
