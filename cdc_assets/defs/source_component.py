"""One registry file as a Dagster Component, for projects that compose their definitions with `dg`, and its scaffold.

type: cdc_assets.CdcSource
attributes:
registry_file: world.yaml

`dg scaffold defs cdc_assets.CdcSource NAME` writes the instance, and a registry file to fill in. Use either this door or
`cdc_assets.definitions` for a file: both would define the same asset keys.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import dagster as dg
from dagster.components.component_scaffolding import scaffold_component
from pydantic import Field

from cdc_assets.defs.platform_resource import PlatformResource
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.registry.loader import load_source

_REGISTRY_FILE = """\
# One source: where its database is, and which of its tables go into the lake.
# `dg check defs` finds what is wrong with this file, by line. The password is only named here:
# it is in CDC_SECRET_{variable}_DB_PASSWORD, or in $CDC_HOME/secrets/{name}_db_password.
source: {name}
owners: ["team:data-platform"]
database:
  kind: postgresql  # or mariadb, mysql; sqlserver, oracle and mongodb with declared columns
  host: {{env: {variable}_DB_HOST, default: 127.0.0.1}}
  port: 5432
  dbname: {name}
  user: cdc
  password: {{secret: {name}_db_password}}
tables:
  - {{name: public.orders}}
"""
_INSTANCE = """\
import dagster as dg

from cdc_assets import CdcSource


@dg.component_instance
def load(context: dg.ComponentLoadContext) -> CdcSource:
    return CdcSource(registry_file="{file}")
"""


class CdcSourceScaffolder(dg.Scaffolder[Any]):
    """A source called as the folder is."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        """Write the instance, and its registry file where there is none yet."""
        folder = request.target_path.parent if request.append else request.target_path
        name = _source_name(folder.name)
        file = folder / f"{name}.yaml"
        if request.scaffold_format == "python":
            (folder / "component.py").write_text(_INSTANCE.format(file=file.name), encoding="utf-8")
        else:
            scaffold_component(request, {"registry_file": file.name})
        if not file.exists():
            file.write_text(_REGISTRY_FILE.format(name=name, variable=name.upper()), encoding="utf-8")


def _source_name(folder: str) -> str:
    """As the registry takes one: a letter, then letters, digits and _, at most 40."""
    name = re.sub(r"[^a-z0-9_]", "_", folder.lower())[:40]
    return name if name[:1].isalpha() else f"s{name}"[:40]


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
    # One for all components of a project: Dagster takes two resources of one name only where they are one object.
    return PlatformResource()
