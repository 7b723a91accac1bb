"""What the registry declares and the running Dagster does not have yet: a file that was edited by hand is noticed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cdc_assets.registry_files.digest import digest
from cdc_assets.registry_files.errors import RegistryError
from cdc_assets.registry_files.loader import load_sources
from cdc_assets.running_dagster.own_definitions import news_of_definitions
from cdc_assets.running_dagster.take_in import EMBEDDED
from cdc_assets.running_dagster.webserver import Location, Webserver

_ASK_SECONDS = 30.0


@dataclass(frozen=True)
class RegistryNews:
    """Names of sources; `broken` are findings by file and line, and where there is one the other three are not told.

    `definitions` tells of what CDC_DEFINITIONS names; empty where Dagster has it. `unknown` says why Dagster could not be asked.
    """

    new: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    definitions: str = ""
    unknown: str = ""

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.gone or self.broken or self.definitions or self.unknown)

    def __str__(self) -> str:
        """One line for people, empty where there is nothing to tell; findings are lines of their own."""
        if self.broken:
            return "\n".join(
                ("the registry is broken, Dagster goes on with what it had; mend it, then cdc reload:", *self.broken)
            )
        if self.unknown:
            return f"whether Dagster has the registry as it is now is not known: {self.unknown}"
        told = [f"{', '.join(found)} {what}" for found, what in self._by_word() if found]
        if self.definitions:
            told.append(self.definitions)
        return f"not in Dagster yet: {'; '.join(told)}: cdc reload" if told else ""

    def _by_word(self) -> tuple[tuple[tuple[str, ...], str], ...]:
        return (self.new, "new"), (self.changed, "changed"), (self.gone, "no longer declared")

    def to_json(self) -> dict[str, Any]:
        """What `-o json` prints: a list of names, or one text, per field."""
        return {name: found if isinstance(found, str) else list(found) for name, found in asdict(self).items()}


def registry_news(url: str, folder: Path) -> RegistryNews:
    """What the folder declares, compared with the digests that the loaded sensors carry: one quick question.

    Raises:
        DefinitionsError: when the webserver cannot be asked.
    """
    found = compare(folder, Webserver(url, seconds=_ASK_SECONDS).locations(sensors_only=True))
    return replace(found, definitions=news_of_definitions(url))


def compare(folder: Path, locations: Iterable[Location]) -> RegistryNews:
    """As above. Of a Dagster of the user's own, which may have other registries' sources as well, none is told as gone."""
    try:
        declared = {source.name: digest(source) for source in load_sources(folder)}
    except RegistryError as error:
        return RegistryNews(broken=tuple(str(finding) for finding in error.findings))
    loaded: dict[str, str] = {}
    ours: set[str] = set()
    for location in locations:
        found = {sensor.source: sensor.digest for sensor in location.sensors.values() if sensor.digest}
        loaded |= found
        ours |= found.keys() if location.name == EMBEDDED else set()
    return _news_of(declared, loaded, ours)


def _news_of(declared: Mapping[str, str], loaded: Mapping[str, str], ours: set[str]) -> RegistryNews:
    return RegistryNews(
        new=tuple(sorted(declared.keys() - loaded.keys())),
        changed=tuple(sorted(name for name in declared.keys() & loaded.keys() if declared[name] != loaded[name])),
        gone=tuple(sorted(ours - declared.keys())),
    )
