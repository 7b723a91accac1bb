"""What `dg scaffold defs cdc_assets.CdcSource NAME` writes: the instance, and a registry file to fill in."""

from __future__ import annotations

import re
from typing import Any

import dagster as dg
from dagster.components.component_scaffolding import scaffold_component

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
