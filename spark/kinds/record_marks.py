"""What connectors and we ourselves mark records with."""

from __future__ import annotations

ANCHOR_HEADER, UNCHANGED_HEADER = "cdc_assets.anchor", "cdc_assets.unchanged"
"""Headers of a record: the commit (LSN) behind which a row read by a temporary connector stands; its connector's own
`unavailable.value.placeholder`."""

DEBEZIUM_UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's own `unavailable.value.placeholder`: of somebody else's connector, unless he has changed it."""
