"""What connectors and we ourselves mark records with."""

from __future__ import annotations

ANCHOR_HEADER, UNCHANGED_HEADER, LARGE_HEADER = "cdc_assets.anchor", "cdc_assets.unchanged", "cdc_assets.large"
"""Headers of a record: the commit (LSN) behind which a row read by a temporary connector stands; its connector's own
`unavailable.value.placeholder`; what a record was that is too large for bronze, which has this sentence in its place."""

TOO_LARGE = "the record is too large"
"""That sentence's beginning."""

DEBEZIUM_UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's own `unavailable.value.placeholder`: of somebody else's connector, unless he has changed it."""
