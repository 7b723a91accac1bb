"""A source whose server is another incarnation: refused, or read again in a new epoch, as the registry says (`on_gap`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from cdc_assets.bronze.append import append_epochs
from cdc_assets.errors import IncarnationError
from cdc_assets.failover.opening import begin_epoch
from cdc_assets.identity.look import refusal, stop_connector, verdict
from cdc_assets.registry.models import CapturedSource
from cdc_assets.resources.platform import Platform

Say = Callable[[str], None]


def apply_on_gap(platform: Platform, source: CapturedSource, say: Say) -> Mapping[str, int]:
    """The epochs that were opened by topic; empty where the server is the one that was read.

    Raises:
        IncarnationError: it is another one, and the source is declared to wait for a person; its connector is stopped by now.
    """
    found = verdict(platform, source)
    if found.kind != "other":
        return {}
    stop_connector(platform, source)
    if source.topics.on_gap == "fail":
        raise IncarnationError(refusal(source, found))
    say(refusal(source, found))
    return open_epoch(platform, source, found.reason, say)


def open_epoch(platform: Platform, source: CapturedSource, reason: str, say: Say) -> Mapping[str, int]:
    """Open it, with bronze in it."""
    return begin_epoch(platform, source, reason, partial(append_epochs, say=say), say)
