"""What Dagster must have of a source: exactly what is built of its declaration (defs.declared_chains)."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cdc_assets import names
from cdc_assets.running_dagster.webserver import Key, Location


@dataclass(frozen=True)
class Expected:
    """Of some sources, by name; `digests` of their declarations. A source without a digest is to be gone."""

    digests: dict[str, str]
    assets: frozenset[Key]
    checks: frozenset[tuple[Key, str]]
    jobs: frozenset[str]
    schedules: frozenset[str]
    sensors: frozenset[str]

    def missing(self, location: Location) -> Iterator[str]:
        """What the location does not have, or has of an older declaration."""
        yield from (f"asset {'/'.join(key)}" for key in sorted(self.assets - location.assets))
        yield from (f"check {name} of {'/'.join(key)}" for key, name in sorted(self.checks - location.checks))
        yield from (f"job {name}" for name in sorted(self.jobs - location.jobs))
        yield from (f"schedule {name}" for name in sorted(self.schedules - location.schedules))
        yield from (f"sensor {name}" for name in sorted(self.sensors - location.sensors.keys()))
        for name, sensor in sorted(location.sensors.items()):
            if self.digests.get(sensor.source, sensor.digest) not in (sensor.digest, ""):
                yield f"the settings of {sensor.source} as they are now (sensor {name} was made of older ones)"

    def surplus(self, location: Location) -> Iterator[str]:
        """What the location still has of these sources, though it is no longer declared; a user's own is declared elsewhere."""
        ours = {key for key, source in location.sources.items() if source in self.digests}
        yield from (f"asset {'/'.join(key)}" for key in sorted(ours - self.assets))
        checks = {(key, name) for key, name in location.checks if key in self.assets and name in names.CHECKS}
        yield from (f"check {name} of {'/'.join(key)}" for key, name in sorted(checks - self.checks))
        yield from (
            f"sensor {name}"
            for name, sensor in sorted(location.sensors.items())
            if sensor.source and self.digests.get(sensor.source) == ""
        )

    def difference(self, locations: Iterable[Location]) -> dict[str, list[str]]:
        """`to_come` and `to_go`, for a plan."""
        now = union(locations)
        return {"to_come": [*self.missing(now)], "to_go": [*self.surplus(now)]}

    def idle_sensors(self, location: Location) -> list[str]:
        """Sensors of these sources that do not run; nothing carries their records."""
        ours = ((name, sensor) for name, sensor in location.sensors.items() if self.digests.get(sensor.source))
        return sorted(name for name, sensor in ours if not sensor.running)


def union(locations: Iterable[Location]) -> Location:
    """What several locations hold together; its name and server are the first one's."""
    first, *others = [*locations] or [Location("")]
    found = copy.deepcopy(first)
    for other in others:
        found.assets |= other.assets
        found.sources |= other.sources
        found.checks |= other.checks
        found.jobs |= other.jobs
        found.schedules |= other.schedules
        found.sensors |= other.sensors
    return found
