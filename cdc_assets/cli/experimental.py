"""Tells of sources whose kind nobody should rely on yet, wherever a verb works with them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cdc_assets.kinds import experimental_warnings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cdc_assets.registry.models import BaseSource


def tell_experimental(sources: Iterable[BaseSource]) -> None:
    """A line for each of them, where no document is printed."""
    for name, warning in experimental_warnings(sources).items():
        print(f"cdc: {name}: {warning}", file=sys.stderr)
