"""A short digest of a declaration: two that mean the same have the same, whatever their comments and blanks."""

from __future__ import annotations

import hashlib

from cdc_assets.registry.models import BaseSource


def digest(source: BaseSource) -> str:
    """Twelve characters over every declared value and default; secrets are in it by their names only."""
    return hashlib.sha256(source.model_dump_json().encode()).hexdigest()[:12]
