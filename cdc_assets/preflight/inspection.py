"""Asks a source: its database by its kind, and the topics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_assets.errors import CdcAssetsError, DatabaseError
from cdc_assets.kinds import experimental_warning, kind_of
from cdc_assets.preflight.avro_needs import inspect_schema_registry
from cdc_assets.preflight.finding import Finding, Report, sort_findings
from cdc_assets.registry.models import CapturedSource

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform


def preflight(platform: Platform, source: CapturedSource) -> Report:
    """All findings; a database that cannot be reached is one.

    Raises:
        DatabaseError: nothing is known of what its kind must have.
    """
    part = kind_of(source).preflight
    if part is None:
        raise DatabaseError(f"source {source.name}: kind {source.database.kind} is not known here")
    report: Report = part.load()(platform, source)
    more = [*inspect_schema_registry(platform, source)]
    findings = sort_findings([*report.findings, *more]) if more else report.findings
    return replace(report, findings=findings, experimental=experimental_warning(source))


def place_or_unknown(place: Callable[[], str]) -> str:
    """Where the server is, as far as that is known: an address that is not set is in the findings."""
    try:
        return place()
    except CdcAssetsError:
        return "an unknown address"


def report_unreachable(source: CapturedSource, place: Callable[[], str], error: CdcAssetsError) -> Report:
    """The one finding, where the server cannot be asked."""
    found = Finding("reachable", "fail", "server", f"cannot be asked: {error}", "mend that first")
    return Report(source.name, place_or_unknown(place), (found,))
