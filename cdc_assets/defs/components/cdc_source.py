"""One registry file as a Dagster Component, for projects that compose their definitions with `dg`.

    type: cdc_assets.CdcSource
    attributes:
      registry_file: world.yaml

Use either this door or `cdc_assets.definitions` for a file: both would define the same asset keys.
"""

from __future__ import annotations

from functools import cache

import dagster as dg
from pydantic import Field

from cdc_assets.defs.chain import build_source_defs
from cdc_assets.defs.components.scaffold import CdcSourceScaffolder
from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.registry_files.loader import load_source


@dg.scaffold_with(CdcSourceScaffolder)
class CdcSource(dg.Component, dg.Model, dg.Resolvable):
    """The asset chains of one source: connector, topic, mirror, bronze, silver, ledger and backup, with their checks."""

    registry_file: str = Field(description="YAML file of the source, relative to the component's folder.")
    with_platform: bool = Field(
        default=True, description="Bring the resource `platform`, which finds every address in the environment."
    )

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Load the file and build its chains; the `platform` resource comes along unless told not to."""
        # Of an instance that is written in Python, Dagster gives the file.
        folder = context.path if context.path.is_dir() else context.path.parent
        file = folder / self.registry_file
        source_defs = build_source_defs(load_source(file), declared_in=file)
        if not self.with_platform:
            return source_defs
        return dg.Definitions.merge(source_defs, dg.Definitions(resources={"platform": _platform()}))


@cache
def _platform() -> PlatformResource:
    """One for all components of a project: Dagster takes two resources of one name only where they are one object."""
    return PlatformResource()
