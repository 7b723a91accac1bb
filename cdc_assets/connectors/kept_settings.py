"""A connector's config with the settings that its source declares beside ours, and with topics of other names.

| declared value | in the config |
|---|---|
| a text | that, in place of ours |
| null | the setting is left out |
| `(kept)` | what the running connector has; of one that is created, ours |

Lists of tables and topics are kept as they are written, and what they do not name is put behind them: a table that is
onboarded later comes into the list of a connector that was adopted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress

from cdc_assets import names
from cdc_assets.registry.models import CapturedSource
from cdc_assets.registry.other_settings import KEPT

LISTS = ("table.include.list", "topics")
_INCLUDED, _EXCLUDED = "column.include.list", "column.exclude.list"
"""A connector takes one of the two (https://debezium.io/documentation/reference/3.6/connectors/postgresql.html)."""
_OF_THE_OWN_ONE = ("signal.", "heartbeat.", "notification.", "snapshot.", "slot.", "publication.", "table.", "name")
_ROUTER = "org.apache.kafka.connect.transforms.RegexRouter"


def with_settings(
    config: Mapping[str, str], settings: Mapping[str, str | None], listed: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The config with these settings; `listed`: what a kept list must name, and the pattern that it gets where it does not."""
    found = dict(config)
    for key, value in settings.items():
        if value is None:
            found.pop(key, None)
        elif value == KEPT:
            found[key] = f"{KEPT}{config.get(key, '')}"
        else:
            found[key] = extend_list(value, listed or {}) if key in LISTS else value
    if settings.get(_INCLUDED) is not None and _EXCLUDED not in settings:
        found.pop(_EXCLUDED, None)
    return found


def beside_settings(source: CapturedSource, config: Mapping[str, str]) -> dict[str, str]:
    """The config of a connector that works beside the source's own: its records are as those are; how it works is ours."""
    settings = {key: value for key, value in source.capture.settings.items() if not key.startswith(_OF_THE_OWN_ONE)}
    return with_settings(with_topics(config, topic_routes(source)), settings)


def topic_routes(source: CapturedSource) -> dict[str, str]:
    """The topics that Debezium would name otherwise than the registry does, and what they are called."""
    found = {names.topic_of(source, table.id): table.own_topic for table in source.tables if table.own_topic}
    return {topic: other for topic, other in found.items() if topic != other}


def extend_list(patterns: str, listed: Mapping[str, str]) -> str:
    """A list of patterns with those of the names that none of it matches."""
    kept = patterns.split(",")
    return ",".join([*kept, *(pattern for name, pattern in listed.items() if not is_listed(name, kept))])


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
    found = {**config, "transforms": ",".join([*transforms_of(config), *routes])}
    for name, (topic, other) in routes.items():
        found |= {
            f"transforms.{name}.type": _ROUTER,
            f"transforms.{name}.regex": topic.replace(".", r"\."),
            f"transforms.{name}.replacement": other,
        }
    return found


def transforms_of(config: Mapping[str, str]) -> list[str]:
    """The names of a config's transforms, in order."""
    return [name for name in config.get("transforms", "").split(",") if name]


def keep_running(declared: Mapping[str, str], running: Mapping[str, str] | None) -> dict[str, str]:
    """With the values that the running connector has, where they are kept; without one, as we would set them."""
    found = {}
    for key, value in declared.items():
        if not value.startswith(KEPT):
            found[key] = value
        elif kept := (running or {}).get(key, value.removeprefix(KEPT)):
            found[key] = kept
    return found
