"""Whether a source is the one that has been read; what happens where it is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from cdc_assets import names
from cdc_assets.errors import CdcAssetsError, IncarnationError
from cdc_assets.identity.judge import Verdict
from cdc_assets.identity.memory import Known
from cdc_assets.kinds import kind_of
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.resources.platform import Platform


def verdict(
    platform: Platform, source: CapturedSource, offsets: Sequence[Mapping[str, Any]] | None = None, known: Known | None = None
) -> Verdict:
    """Whether its connector may go on from where it is, or from these offsets; of a kind that is not told, it may.

    `known`: the server that has been read, where nobody here remembers it.

    Raises:
        CdcAssetsError: the server, Connect or the lake cannot be asked.
    """
    part = kind_of(source).incarnation
    found: Verdict = part.load()(platform, source, offsets, known) if part else Verdict("same")
    return found


def note_server(platform: Platform, source: CapturedSource) -> None:
    """Remember the server as it is now, with its witness: a restore to a moment after this will be told.

    `preflight` writes nothing; who looks with a rhythm notes besides. A server that cannot be asked is preflight's to tell.
    """
    with suppress(CdcAssetsError):
        verdict(platform, source)


def refuse_other(platform: Platform, source: BaseSource) -> None:
    """Before a connector is let run.

    Raises:
        IncarnationError: its server is another incarnation; the connector is stopped by now.
    """
    captured = source.captured
    if captured is None:
        return
    found = verdict(platform, captured)
    if found.kind != "other":
        return
    stop_connector(platform, captured)
    raise IncarnationError(refusal(captured, found))


def stop_connector(platform: Platform, source: CapturedSource) -> None:
    """Its connector reads nothing more; one that git owns is git's to stop (`refusal` says so)."""
    if source.managed_by == "gitops":
        return
    connect, name = platform.core_connect(source.cluster), names.connector_name(source)
    if connect.status(name) is not None:
        connect.stop(name)


def refusal(source: CapturedSource, verdict: Verdict) -> str:
    """What is wrong, and the command that mends it."""
    if source.managed_by == "gitops":
        stop = f"put state: stopped into the manifest of {names.connector_name(source)}, which is managed_by: gitops; then "
    else:
        stop = ""
    return (
        f"the server of source {source.name} does not go on where it was read: {verdict.reason}. Its connector must not go on "
        f"from its offset: {stop}cdc repair source {source.name} opens a new epoch, with every table read again"
    )
