"""`cdc licences`: every package and jar that the lock files name, with its licence; as a CycloneDX document for programs."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_assets.cli.exit_codes import report_errors
from cdc_assets.cli.output_formats import Format, Output, print_rows
from cdc_assets.quantity import quantity

if TYPE_CHECKING:
    from cdc_assets.stack.bill_of_materials import LockedPart


def licences(
    sbom: Annotated[bool, typer.Option("--sbom", help="Print a software bill of materials (CycloneDX 1.6, JSON).")] = False,
    vulnerabilities: Annotated[
        bool, typer.Option("--vulnerabilities", help="Ask pypi.org what is known of the packages; exit 1 if anything is.")
    ] = False,
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
    if vulnerabilities:
        _print_vulnerabilities(parts, output)
        return
    print_rows([part.row() for part in parts], output, narrow=("name", "version", "licence"))


def _print_vulnerabilities(parts: Sequence[LockedPart], output: Format) -> None:
    from cdc_assets.stack import known_vulnerabilities as known

    with report_errors():
        found = known.find_vulnerabilities(parts)
    print_rows([each.row() for each in found], output, narrow=("name", "version", "id", "mended"))
    asked = sum(part.kind == "python" for part in parts)
    at = dt.datetime.now(dt.timezone.utc).isoformat(timespec="minutes")
    what = "known vulnerability" if len(found) == 1 else "known vulnerabilities"
    print(f"{len(found)} {what} of {quantity(asked, 'package')}, by {known.INDEX} at {at}", file=sys.stderr)
    jars = len(parts) - asked
    print(
        f"{quantity(jars, 'jar')} {'was' if jars == 1 else 'were'} not asked about: docs/reference/vulnerabilities.md",
        file=sys.stderr,
    )
    if found:
        raise typer.Exit(1)
