"""What must hold at a source before and during capture, asked of its catalogue; each failure with the statement that mends it."""

from cdc_assets.preflight.finding import Finding, Report
from cdc_assets.preflight.inspection import preflight
from cdc_assets.preflight.mend import fix

__all__ = ["Finding", "Report", "fix", "preflight"]
