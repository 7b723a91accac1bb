"""The text that a connector sends in place of a value that an update did not change (`unavailable.value.placeholder`).

Whoever knows it can write it into a row, and that update would be lost. So each connector has one of its own, drawn at random.
The registry only declares that there is one (DRAWN). The connector's config on Connect keeps it: one that is there stays.
Each record names it in a header, by which silver reads the record, whichever text was valid then. Records without that header
were written before, when it was the same everywhere (PUBLIC). Of a connector that git deploys it still is: a random text would
change its manifest each time that it is rendered.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping

from cdc_assets.connectors.kept_settings import keep_running, transforms_of
from cdc_assets.connectors.marker_prefix import settle_prefix, with_public_prefix
from spark.kinds.record_marks import DEBEZIUM_UNAVAILABLE, UNCHANGED_HEADER

DRAWN = "(drawn)"
PUBLIC = "cdc_assets:unchanged:6f2d9a4be1c84d3f9a57"
HEADER_CONVERTER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_SETTING = "unavailable.value.placeholder"
_OWN = re.compile(r"cdc_unchanged_[0-9a-f]{32}")
_TRANSFORM = "unchanged"
_HEADER = {
    "transforms": _TRANSFORM,
    "transforms.unchanged.type": "org.apache.kafka.connect.transforms.InsertHeader",
    "transforms.unchanged.header": UNCHANGED_HEADER,
    "transforms.unchanged.value.literal": DRAWN,
    # A worker may have another one, which would write the text in quotes.
    "header.converter": HEADER_CONVERTER,
}
DECLARED = {_SETTING: DRAWN, **_HEADER}
"""Settings of a connector that sends such a text."""


def settle(declared: Mapping[str, str], running: Mapping[str, str] | None) -> dict[str, str]:
    """The declared config with what is kept of the running connector's: settings so declared, its drawn texts, else new ones."""
    declared = settle_prefix(keep_running(declared, running), running)
    if DRAWN not in declared.values():
        return declared
    kept = (running or {}).get(_SETTING, "")
    text = kept if _OWN.fullmatch(kept) else f"cdc_unchanged_{secrets.token_hex(16)}"
    return {key: text if value == DRAWN else value for key, value in declared.items()}


def has_another_text(config: Mapping[str, str], running: Mapping[str, str]) -> bool:
    """Whether the running connector must be STOPPED before it gets this config.

    A task that Connect starts between a connector's new config and the task's own has the old settings of Debezium and the new
    header: its records would tell a text that they do not have.
    https://github.com/apache/kafka, DistributedHerder.startTask
    """
    return config.get(_SETTING) != running.get(_SETTING)


def with_public_text(declared: Mapping[str, str]) -> dict[str, str]:
    """The same at each rendering, and the same as before; without a connector that runs, nothing of it is kept."""
    declared = with_public_prefix(keep_running(declared, None))
    if declared.get(_SETTING) != DRAWN:
        return declared
    kept = {key: value for key, value in declared.items() if _HEADER.get(key) != value}
    if others := [name for name in transforms_of(declared) if name != _TRANSFORM]:
        kept["transforms"] = ",".join(others)
    return {**kept, _SETTING: PUBLIC}


def says_unchanged(value: object) -> bool:
    """Whether a column's value in an event stands for "as it was"."""
    return value in (PUBLIC, DEBEZIUM_UNAVAILABLE) or _OWN.fullmatch(str(value)) is not None
