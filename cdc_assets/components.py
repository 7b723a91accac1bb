"""The Dagster Component door: `type: cdc_assets.CdcSource`."""

from cdc_assets.defs.components.cdc_source import CdcSource

__all__ = ["CdcSource"]
