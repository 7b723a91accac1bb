"""What is mended at a source before its connector is applied: changes of partitions that come under the wrong names."""

from __future__ import annotations

from cdc_assets.kinds import kind_of
from cdc_assets.registry.models import BaseSource


def publish_by_root(source: BaseSource) -> str:
    """Mend it as the source's kind does, and say what that has cost so far; empty where there was nothing to do.

    Raises:
        DatabaseError: the role may not.
    """
    part = kind_of(source).partitions
    if part is None or source.managed_by != "cdc":
        return ""
    said: str = part.load()(source)
    return said
