"""One registry file as a Dagster Component, for projects that compose their definitions with `dg`.

    type: cdc_assets.components.CdcSource
    attributes:
      registry_file: world.yaml

Use either this door or `cdc_assets.definitions` for a file: both would define the same asset keys.
"""

from __future__ import annotations

import dagster as dg

from cdc_assets.assets.chain import build_source_defs
from cdc_assets.registry.loader import load_source
from cdc_assets.resources.platform import Platform


class CdcSource(dg.Component, dg.Model, dg.Resolvable):
    """The asset chains of one registry file, relative to the component's folder."""

    registry_file: str
    with_platform: bool = True

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Load the file and build its chains; the `platform` resource comes along unless told not to."""
        file = context.path / self.registry_file
        source_defs = build_source_defs(load_source(file), declared_in=file)
        if not self.with_platform:
            return source_defs
        return dg.Definitions.merge(source_defs, dg.Definitions(resources={"platform": Platform()}))
