"""`cdc licences`: every package and jar that the lock files name, with its licence; as a CycloneDX document for programs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from cdc_assets.cli.output_formats import Format, Output, print_rows


def licences(
    sbom: Annotated[bool, typer.Option("--sbom", help="Print a software bill of materials (CycloneDX 1.6, JSON).")] = False,
    output: Output = Format.text,
) -> None:
    """List what uv.lock and jars.lock.toml name.

    The licence of a package is the one that it declares itself, where it is installed; a jar's stands in the lock.
    """
    from cdc_assets.cli.version import software_version
    from cdc_assets.stack.bill_of_materials import cyclonedx, parts_of_locks

    parts = parts_of_locks()
    if sbom:
        print(json.dumps(cyclonedx(parts, software_version()), indent=2))
        return
    print_rows([part.row() for part in parts], output, narrow=("name", "version", "licence"))
