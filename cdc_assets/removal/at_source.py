"""Which objects at a source's database are there for us, by its kind."""

from __future__ import annotations

from cdc_assets.kinds import kind_of
from cdc_assets.registry.models import BaseSource
from cdc_assets.removal.trace import Traces


def traces_of(source: BaseSource) -> Traces | None:
    """Of the source's database; None where nothing of ours is ever written: other kinds, and sources of topics."""
    part = kind_of(source).traces
    found: Traces | None = part.load()(source) if part else None
    return found
