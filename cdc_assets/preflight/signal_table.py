"""Whether the table is there through which the connector is asked to read rows again; capture itself works without it."""

from __future__ import annotations

from cdc_assets import names
from cdc_assets.preflight.finding import Finding
from cdc_assets.registry.models import Source
from cdc_assets.resources.databases.catalogue import SourceDatabase


def signal_finding(source: Source, database: SourceDatabase, *, may_create: bool | None) -> Finding:
    """`may_create`: whether the role may make it; None where that is not known."""
    table = names.signal_table(source)
    if table in database.tables([table]):
        return Finding("signals", "ok", str(table), "is there: rows can be read again")
    if may_create is False:
        message = "does not exist, and the role may not make it: cdc snapshot, cdc onboard and cdc reconcile --heal need it"
        return Finding("signals", "warn", str(table), message, f"cdc apply {source.name} says what somebody who may has to run")
    made = f"cdc apply {source.name} makes it"
    return Finding("signals", "ok", str(table), f"does not exist yet; {made if may_create else f'{made} where the role may'}")
