"""A connector's config with the settings that its source declares beside ours, and with topics of other names.

| declared value | in the config |
|---|---|
| a text | that, in place of ours |
| null | the setting is left out |
| `(kept)` | what the running connector has; of one that is created, ours |

Lists of tables and topics are kept as they are written, and what they do not name is put behind them: a table that is
onboarded later comes into the list of a connector that was adopted.

Kept is also the text that a connector sends in place of a value that an update did not change (`unavailable.value.placeholder`).
Whoever knows it can write it into a row, and that update would be lost. So each connector has one of its own, drawn at random.
The registry only declares that there is one (DRAWN). The connector's config on Connect keeps it: one that is there stays.
Each record names it in a header, by which silver reads the record, whichever text was valid then. Records without that header
were written before, when it was the same everywhere (PUBLIC). Of a connector that git deploys it still is: a random text would
change its manifest each time that it is rendered.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress

from cdc_assets.capture.connectors.debezium_settings import settle_prefix, with_public_prefix
from cdc_assets.registry import names
from cdc_assets.registry.references import KEPT
from cdc_assets.registry.source_declaration import CapturedSource
from spark.record_formats import DEBEZIUM_UNAVAILABLE, UNCHANGED_HEADER

LISTS = ("table.include.list", "topics")
_INCLUDED, _EXCLUDED = "column.include.list", "column.exclude.list"
"""A connector takes one of the two (https://debezium.io/documentation/reference/3.6/connectors/postgresql.html)."""
_OF_THE_OWN_ONE = ("signal.", "heartbeat.", "notification.", "snapshot.", "slot.", "publication.", "table.", "name")
_ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"


def with_settings(
    config: Mapping[str, str], settings: Mapping[str, str | None], listed: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The config with these settings; `listed`: what a kept list must name, and the pattern that it gets where it does not."""
    changed = dict(config)
    for key, value in settings.items():
        if value is None:
            changed.pop(key, None)
        elif value == KEPT:
            changed[key] = f"{KEPT}{config.get(key, '')}"
        elif key in LISTS:
            # With the names that none of its patterns matches.
            patterns = value.split(",")
            lacking = (pattern for name, pattern in (listed or {}).items() if not is_listed(name, patterns))
            changed[key] = ",".join([*patterns, *lacking])
        else:
            changed[key] = value
    if settings.get(_INCLUDED) is not None and _EXCLUDED not in settings:
        changed.pop(_EXCLUDED, None)
    return changed


def beside_settings(source: CapturedSource, config: Mapping[str, str]) -> dict[str, str]:
    """The config of a connector that works beside the source's own: its records are as those are; how it works is ours."""
    settings = {key: value for key, value in source.capture.settings.items() if not key.startswith(_OF_THE_OWN_ONE)}
    return with_settings(with_topics(config, topic_routes(source)), settings)


def topic_routes(source: CapturedSource) -> dict[str, str]:
    """The topics that Debezium would name otherwise than the registry does, and what they are called."""
    own_topics = {names.topic_of(source, table.id): table.topic for table in source.tables if table.topic}
    return {topic: other for topic, other in own_topics.items() if topic != other}


def is_listed(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns is for the whole name, as Debezium and MirrorMaker read them: in any case."""
    # Blanks around one are not of it, unless it ends in an escaped one.
    for pattern in (form for text in patterns for form in (text, text.strip())):
        # One that only Java reads is taken for none: the name is listed once more then.
        with suppress(re.error):
            if re.fullmatch(pattern, name, re.IGNORECASE):
                return True
    return False


def with_topics(config: Mapping[str, str], renamed: Mapping[str, str]) -> dict[str, str]:
    """Records of these topics go to others: one RegexRouter each, behind the transforms that there are."""
    if not renamed:
        return dict(config)
    routes = {f"topic{at}": pair for at, pair in enumerate(sorted(renamed.items()), 1)}
    routed = {**config, "transforms": ",".join([*transforms_of(config), *routes])}
    for name, (topic, other) in routes.items():
        routed |= {
            f"transforms.{name}.type": _ROUTER,
            f"transforms.{name}.regex": topic.replace(".", r"\."),
            f"transforms.{name}.replacement": other,
        }
    return routed


def transforms_of(config: Mapping[str, str]) -> list[str]:
    """The names of a config's transforms, in order."""
    return [name for name in config.get("transforms", "").split(",") if name]


def keep_running(declared: Mapping[str, str], running: Mapping[str, str] | None) -> dict[str, str]:
    """With the values that the running connector has, where they are kept; without one, as we would set them."""
    kept_values = {}
    for key, value in declared.items():
        if not value.startswith(KEPT):
            kept_values[key] = value
        elif kept := (running or {}).get(key, value.removeprefix(KEPT)):
            kept_values[key] = kept
    return kept_values


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
