"""Runs what is safe of what mends a source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cdc_assets.errors import DatabaseError
from cdc_assets.preflight.finding import Finding, Report
from cdc_assets.registry.models import CapturedSource
from cdc_assets.resources.rows.open import open_connection

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform


def fix(platform: Platform, source: CapturedSource, report: Report) -> list[tuple[Finding, str]]:
    """Run every safe statement of what does not hold; each with `done`, or why not."""
    done: list[tuple[Finding, str]] = []
    for finding in report.findings:
        if finding.level == "ok" or not finding.safe or finding.mend is None:
            continue
        try:
            _run(platform, source, finding.mend)
            done.append((finding, "done"))
        except DatabaseError as error:
            done.append((finding, str(error)))
    return done


def _run(platform: Platform, source: CapturedSource, statement: str) -> None:
    asked = source.asked
    if asked is None:
        with open_connection(source.database).cursor() as cursor:
            cursor.execute(statement)
        return
    database = platform.database(asked)
    with database.connection() as connection:
        if database.LOCK_LIMIT:
            connection.execute(database.LOCK_LIMIT)
        connection.execute(statement)
