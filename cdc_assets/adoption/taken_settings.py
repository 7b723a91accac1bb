"""Their settings beside ours: what differs in effect, what the entry has to declare so that nothing differs, and the proof."""

from __future__ import annotations

from collections.abc import Mapping

from cdc_assets import names
from cdc_assets.adoption.found_mirror import FoundMirror
from cdc_assets.adoption.found_tables import message_keys
from cdc_assets.adoption.running_connector import RunningConnector
from cdc_assets.adoption.setting_differences import (
    SettingDifference,
    differences,
    differing_keys,
    of_capture,
    of_mirror,
)
from cdc_assets.connectors.capture import capture_config
from cdc_assets.connectors.kept_settings import is_listed
from cdc_assets.connectors.mirrormaker2 import mirror_config
from cdc_assets.connectors.unchanged_value import settle
from cdc_assets.errors import AdoptionError
from cdc_assets.registry.models import CapturedSource
from cdc_assets.resources.connect import ConnectClient
from cdc_assets.resources.connect.masking import mask_value

# What holds where a worker runs source connectors exactly once, which is asked of it (docs/how-to/your-own-platform.md).
_OF_MARKERS = ("message.prefix.include.list", "message.prefix.exclude.list")
_OF_THE_WORKER = {"exactly.once.support": ("requested", "required"), "transaction.boundary": ("poll",)}


def capture_differences(running: RunningConnector, source: CapturedSource) -> list[SettingDifference]:
    """What of the connector is not as the source, without settings of its own, is rendered."""
    ours = capture_config(source)
    config = settle(ours, running.config)

    def effect(key: str) -> tuple[str | None, str | None]:
        if key == "table.include.list" and key in running.config:
            return None, None  # its tables are the declared ones: that is how they were found
        if key == "message.key.columns" and message_keys(running):
            return None, None
        if key in _OF_MARKERS and _lets_markers_through(running):
            return None, None
        return _in_effect(key, running.config, running.defaults), _in_effect(key, config, running.defaults)

    def display(key: str) -> tuple[str | None, str | None]:
        return running.display(key), mask_value(key, ours[key], running.password_keys) if key in ours else None

    return differences(differing_keys(running.config, config), display, of_capture, effect)


def _lets_markers_through(running: RunningConnector) -> bool:
    listed, left_out = (running.config.get(key, "") for key in _OF_MARKERS)
    marker = names.MARKER_PREFIX
    return (not listed or is_listed(marker, listed.split(","))) and not (left_out and is_listed(marker, left_out.split(",")))


def mirror_differences(mirror: FoundMirror, connect: ConnectClient, source: CapturedSource) -> list[SettingDifference]:
    """The same of the mirror."""
    ours, theirs = mirror_config(source), mirror.config
    topics = [names.topic(source, table) for table in source.tables]
    defaults = connect.default_values(ours["connector.class"])

    def effect(key: str) -> tuple[str | None, str | None]:
        if key == "topics":
            carried = all(is_listed(name, theirs.get(key, ".*").split(",")) for name in topics)
            return (None, None) if carried else (theirs.get(key), ours[key])
        return _in_effect(key, theirs, defaults), _in_effect(key, ours, defaults)

    def display(key: str) -> tuple[str | None, str | None]:
        shown = [mask_value(key, each[key], mirror.password_keys) if key in each else None for each in (theirs, ours)]
        return shown[0], shown[1]

    return differences(differing_keys(theirs, ours), display, of_mirror, effect)


def other_settings(running: RunningConnector, source: CapturedSource) -> dict[str, str | None]:
    """The settings that the entry has to declare, so that the connector is rendered as it is."""
    return {key: running.value_to_keep(key) for key in _unequal(running.config, capture_config(source))}


def _unequal(config: Mapping[str, str], rendered: Mapping[str, str]) -> list[str]:
    """The settings of a running connector that the rendered config would change."""
    return differing_keys(config, settle(rendered, config))


def refuse_unequal(running: RunningConnector, mirror: FoundMirror | None, source: CapturedSource, *, ours: bool) -> None:
    """The proof that nothing would be changed; of `ours` nothing is to be proven.

    Raises:
        AdoptionError: something would be: naming the settings.
    """
    if ours:
        return
    unequal = _unequal(running.config, capture_config(source))
    if mirror is not None:
        unequal += [f"{mirror.name}: {key}" for key in _unequal(mirror.config, mirror_config(source))]
    if unequal:
        raise AdoptionError(
            f"connector {running.name} would not be left as it is, so nothing was written: {', '.join(unequal)} cannot be "
            "declared; change it there, or --ours; and please report it"
        )


def _in_effect(key: str, config: Mapping[str, str], defaults: Mapping[str, str | None]) -> str | None:
    value = config.get(key, defaults.get(key))
    same = _OF_THE_WORKER.get(key, ())
    return same[0] if same and (value is None or value.lower() in same) else value
