"""The Dagster Component door: `type: cdc_assets.CdcSource`."""

from cdc_assets.defs.source_component import CdcSource

__all__ = ["CdcSource"]
