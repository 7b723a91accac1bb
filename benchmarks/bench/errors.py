"""What ends a measurement."""

from __future__ import annotations

from cdc_assets.registry.errors import CdcAssetsError


class BenchError(CdcAssetsError):
    """`cdc bench` cannot measure, or what it measured made wrong rows."""
