"""The quarantine check of silver: how many records could not be folded, the oldest, and how many rows are in doubt for it.

A row is in doubt while a record of its key is in quarantine and nothing later says all of the row: silver then shows
what it was without that record.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.checks.result import check_result, evaluation_of
from cdc_assets.defs.checks.table_checks import Checks, table_checks
from cdc_assets.defs.keys import key_of_check
from cdc_assets.quantity import quantity
from cdc_assets.quarantine.quarantined_records import QuarantinedRecord, quarantine_records
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform

NAME = "quarantine_empty"


def quarantine_key(source: BaseSource, table: Table) -> dg.AssetCheckKey:
    """The key of the table's check."""
    return key_of_check(NAME, "silver", source, table)


def quarantine_evaluation(lake: str, source: BaseSource, table: Table) -> dg.AssetCheckEvaluation:
    """What the check says of one table now, for who reports it beside the check's own step: whoever has set a record aside."""
    records = quarantine_records(lake, source, table)
    return evaluation_of(check_result(quarantine_key(source, table), *evidence(source, table, records)))


def build_quarantine_checks(source: BaseSource) -> dg.AssetChecksDefinition:
    """One subsettable step for all tables of the source."""
    checks = {quarantine_key(source, table): table for table in source.tables}

    @table_checks("quarantine", source, checks, "No record of the table is in quarantine.")
    def quarantine(_: dg.AssetCheckExecutionContext, platform: Platform, wanted: Checks) -> Iterator[dg.AssetCheckResult]:
        for key, table in wanted.items():
            yield check_result(key, *evidence(source, table, quarantine_records(platform.lake, source, table)))

    return quarantine


def evidence(source: BaseSource, table: Table, records: list[QuarantinedRecord]) -> tuple[bool, str, dict[str, Any]]:
    """Whether the quarantine is empty, in words, and the figures."""
    if not records:
        return True, "no record is in quarantine", {"cdc/quarantined": 0}
    oldest = min(records, key=lambda h: h.facts["first_seen"])
    doubtful = [h for h in records if h.facts["superseded_by"] is None]
    rows = {h.facts["row_key"] for h in doubtful if h.facts["row_key"] is not None}
    unknown = sum(h.facts["row_key"] is None for h in records)
    place = f"{source.name}/{names.table_name(table)}"
    metadata = {
        "cdc/quarantined": len(records),
        "cdc/oldest": str(oldest.facts["first_seen"]),
        "cdc/rows_in_doubt": len(rows),
        "cdc/records_of_unknown_rows": unknown,
        "cdc/by_class": dg.MetadataValue.json(dict(Counter(h.facts["error_class"] for h in records))),
        "cdc/first_message": oldest.hidden(table).facts["message"],
    }
    since = f"{oldest.facts['first_seen']:%Y-%m-%d %H:%M}"
    text = f"{quantity(len(records), 'record')} in quarantine since {since}, {quantity(len(rows), 'row')} in doubt"
    return False, f"{text}: cdc quarantine list {place}", metadata
