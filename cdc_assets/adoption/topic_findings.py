"""What the topics of an adopted connector are like: settings that stay theirs, and what a person should know of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cdc_assets import names
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import CapturedSource
from cdc_assets.resources.kafka import TopicState

_FOR_EVER = "36500d"


def topic_settings(states: Mapping[str, TopicState], configs: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Partitions and retention as the topics have them: materializing topic/* must not shorten what they keep."""
    if not states:
        return {}
    kept = [int(config["retention.ms"]) for config in configs.values()]
    retention = _FOR_EVER if min(kept) < 0 else f"{max(kept)}ms"
    found = {"partitions": max(len(state.ranges) for state in states.values()), "retention": retention}
    return {key: value for key, value in found.items() if value not in (1, "604800000ms")}


def topic_notes(
    source: CapturedSource,
    keyless: Sequence[TableId],
    states: Mapping[str, TopicState],
    configs: Mapping[str, Mapping[str, str]],
) -> list[str]:
    """What is lacking in the topics, and what would be changed of them."""
    notes = []
    for table in source.tables:
        topic = names.topic(source, table)
        again = f"cdc onboard {source.name} '{table.name}' --again --route temporary reads the table once more"
        state = states.get(topic)
        if state is None:
            notes.append(f"{table.name}: there is no topic {topic} yet; it comes with the first record")
        elif any(begin for begin, _ in state.ranges.values()):
            notes.append(f"{table.name}: topic {topic} has lost its oldest records, so rows may lack in the lake: {again}")
        if "compact" in configs.get(topic, {}).get("cleanup.policy", ""):
            notes.append(
                f"{table.name}: topic {topic} is compacted, so its history is gone; cleanup.policy=delete, which bronze "
                f"needs, comes with materializing topic/{source.name}"
            )
        if table.id in keyless and not table.keys:
            notes.append(f"{table.name} has no primary key: declare its keys in the entry (docs/reference/registry.md)")
    return notes
