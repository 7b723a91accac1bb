"""The Dagster Component door: `type: cdc_assets.components.CdcSource`."""

from cdc_assets.defs.components.cdc_source import CdcSource

__all__ = ["CdcSource"]
