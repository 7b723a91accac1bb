"""The check `history_reconciled` of tables with a history (SCD2): on the silver asset, which makes it.

A check of its own beside `reconciled`: what is wrong in a history is not wrong in silver, so it must not turn that red, nor
hold up what reads silver. It asks nothing of the source, and so is there for sources of topics as well.
"""

from collections.abc import Iterator, Sequence

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.checks.evidence import Evidence, shorten
from cdc_assets.defs.checks.result import check_result
from cdc_assets.defs.checks.table_checks import Checks, table_checks
from cdc_assets.defs.keys import key_of_check
from cdc_assets.reconcile import histories, open_differences
from cdc_assets.reconcile.history_result import HistoryDifference, HistoryResult
from cdc_assets.reconcile.verdict import DIFFERENT, NOT_COMPARED
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform

NAME = "history_reconciled"
_DESCRIPTION = "All versions of every row are those that bronze makes. The current versions are silver's rows."
_SHOWN = 100


def tables_with_history(source: BaseSource) -> list[Table]:
    """The tables of the source that keep all versions."""
    return [table for table in source.tables if histories.has_history(table)]


def history_key(source: BaseSource, table: Table) -> dg.AssetCheckKey:
    """The key of the check of one table."""
    return key_of_check(NAME, "silver", source, table)


def build_history_checks(source: BaseSource) -> dg.AssetChecksDefinition:
    """One subsettable step for all histories of the source; they are proven one after the other."""
    checks = {history_key(source, table): table for table in tables_with_history(source)}

    @table_checks("histories", source, checks, _DESCRIPTION, blocking=lambda _: False)
    def proofs(_: dg.AssetCheckExecutionContext, platform: Platform, wanted: Checks) -> Iterator[dg.AssetCheckResult]:
        found = _prove(platform, source, list(wanted.values()))
        for key, table in wanted.items():
            result = found[names.table_name(table)]
            yield check_result(key, *of_history(result), severity=_severity(source, table, result))

    return proofs


def _prove(platform: Platform, source: BaseSource, tables: Sequence[Table]) -> dict[str, HistoryResult]:
    """Of large histories a share of the keys; one that is wrong stays red until it is right."""
    parts = histories.shares_now(platform, source, tables)
    by_name = {names.table_name(table): table for table in tables}

    def prove(name: str, part: object) -> HistoryResult:
        assert isinstance(part, tuple)
        return histories.prove(platform, source, by_name[name], part=part)

    results = {name: prove(name, parts.get(name, (0, 1))) for name in by_name}
    return open_differences.with_earlier(f"{source.name}.histories", parts, results, prove)


def _severity(source: BaseSource, table: Table, result: HistoryResult) -> dg.AssetCheckSeverity:
    fails = source.reconciliation_of(table).on_difference == "fail"
    return dg.AssetCheckSeverity.ERROR if fails and result.verdict == DIFFERENT else dg.AssetCheckSeverity.WARN


def of_history(result: HistoryResult) -> Evidence:
    """The numbers of a proof; keys and versions of what is wrong, no values."""
    metadata = {
        "cdc/share": result.share,
        "cdc/history_versions": result.versions,
        "cdc/history_current": result.current,
        "cdc/keys_differing": result.keys_differing,
        "cdc/seconds": dg.MetadataValue.json(dict(result.seconds)),
        **({} if result.version is None else {"cdc/history_delta_version": result.version}),
        **({} if result.silver_version is None else {"cdc/silver_version": result.silver_version}),
        **({"cdc/columns_not_compared": dg.MetadataValue.json(dict(result.not_compared))} if result.not_compared else {}),
        **({"cdc/error": result.reason} if result.verdict == NOT_COMPARED else {}),
    }
    if result.differences:
        metadata["cdc/differences"] = dg.MetadataValue.table([_record(d) for d in result.differences[:_SHOWN]])
    return result.equal, result.sentence(), metadata


def _record(difference: HistoryDifference) -> dg.TableRecord:
    return dg.TableRecord(
        {
            "key": shorten(difference.key),
            "kind": ", ".join(difference.kinds),
            "damaged": difference.where,
            "versions": shorten(", ".join(difference.versions)),
            "columns": ", ".join(difference.columns),
            "seen_by": ", ".join(difference.proofs),
        }
    )
