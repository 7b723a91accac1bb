"""The table of checks: a row per builder, which answers with the checks of one source, or with none.

docs/how-to/add-a-check.md adds one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import dagster as dg

from cdc_assets import names
from cdc_assets.defs.checks.cuts_kept import build_cuts_check
from cdc_assets.defs.checks.drilled import build_drilled_check
from cdc_assets.defs.checks.flow import build_flow_check, has_flow_check
from cdc_assets.defs.checks.fresh import build_fresh_checks
from cdc_assets.defs.checks.history import build_history_checks, tables_with_history
from cdc_assets.defs.checks.hop_balance import build_ledger_checks
from cdc_assets.defs.checks.maintained import build_maintained_check
from cdc_assets.defs.checks.mirror import build_mirror_checks
from cdc_assets.defs.checks.preflight import build_preflight_check
from cdc_assets.defs.checks.quarantine_count import build_quarantine_checks
from cdc_assets.defs.checks.reconciled_two_step import build_rows_checks, has_rows_check
from cdc_assets.defs.checks.table_model import build_model_checks, has_models
from cdc_assets.defs.checks.volumetry import build_volumetry_checks
from cdc_assets.defs.checks.windowed_proof import build_windows_check
from cdc_assets.defs.checks.windowed_source import build_windows_source_check, windows_to_ask
from cdc_assets.registry.models import BaseSource
from cdc_assets.windowed.refine_windows import windows_of

Builder = Callable[[BaseSource], Sequence[dg.AssetChecksDefinition]]

CHECKS: tuple[Builder, ...] = (
    build_volumetry_checks,
    lambda source: [build_quarantine_checks(source)],
    lambda source: [build_fresh_checks(source)],
    lambda source: [build_model_checks(source)] if has_models(source) else [],
    lambda source: [build_ledger_checks(source)],
    lambda source: [build_maintained_check(source)],
    lambda source: [build_cuts_check(source)] if source.cuts else [],
    lambda source: [build_drilled_check(source)] if source.drill else [],
    lambda source: [build_preflight_check(source.captured)] if source.captured else [],
    lambda source: [build_flow_check(source)] if has_flow_check(source) else [],
    lambda source: [build_mirror_checks(source)] if names.is_mirrored(source) else [],
    lambda source: [build_history_checks(source)] if tables_with_history(source) else [],
    lambda source: [build_rows_checks(source)] if has_rows_check(source) else [],
    lambda source: [build_windows_check(source)] if windows_of(source) else [],
    lambda source: [build_windows_source_check(source)] if windows_to_ask(source) else [],
)
