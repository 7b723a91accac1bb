"""A change-data-capture lakehouse as Dagster assets: connector, topic, mirror, bronze, silver, backup.

`cdc_assets.CdcSource` is the Component. Dagster is imported when it is asked for, and not before: `cdc` needs none to start.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cdc_assets.components import CdcSource

__all__ = ["CdcSource"]


def __getattr__(name: str) -> Any:
    if name != "CdcSource":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from cdc_assets.components import CdcSource

    return CdcSource


def __dir__() -> list[str]:
    # How `dg` finds what a module has to offer.
    return sorted({*globals(), *__all__})
