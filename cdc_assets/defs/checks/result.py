"""A finding as Dagster takes it: one form for every check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from cdc_assets.defs.runbook import runbook
from cdc_assets.shown_text import prose_in_markdown


def check_result(
    key: dg.AssetCheckKey,
    passed: bool,
    description: str,
    metadata: Mapping[str, Any],
    *,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.ERROR,
) -> dg.AssetCheckResult:
    """The result of the check of that key. Its description may quote a source: on Dagster's page nothing of it acts."""
    return dg.AssetCheckResult(
        passed=passed,
        asset_key=key.asset_key,
        check_name=key.name,
        severity=severity,
        description=prose_in_markdown(description),
        metadata={**metadata, "cdc/runbook": runbook(key.name)},
    )


def evaluation_of(result: dg.AssetCheckResult) -> dg.AssetCheckEvaluation:
    """A result that has its key as an event: a result belongs to the step of a check."""
    assert result.asset_key is not None
    assert result.check_name is not None
    return dg.AssetCheckEvaluation(
        asset_key=result.asset_key,
        check_name=result.check_name,
        passed=result.passed,
        metadata=dict(result.metadata or {}),
        severity=result.severity,
        description=result.description,
    )
