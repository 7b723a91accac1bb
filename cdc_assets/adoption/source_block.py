"""What a kind of database adds to the entry of an adopted source: protocol of the kinds' parts, and what they share."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from cdc_assets.adoption.running_connector import RunningConnector
from cdc_assets.registry.identifiers import TableId
from cdc_assets.registry.models import CapturedSource

_PLACES = (
    (r"\$\{file:(/[A-Za-z0-9_./-]+):([A-Za-z0-9_.-]+)\}", lambda m: {"file": m[1], "key": m[2]}),
    (r"\$\{env:([A-Z][A-Z0-9_]*)\}", lambda m: {"env": m[1]}),
)


@dataclass(frozen=True)
class FoundAtSource:
    """What the source's server says of the connector: its tables, and what it keeps for it.

    `facts` are printed, `notes` say what a person should know. `blocks` are keys of the entry that only the server could tell.
    """

    tables: Sequence[TableId]
    keyless: Sequence[TableId] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    blocks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class AdoptionKind(Protocol):
    """One kind of database, as `cdc adopt` asks for it."""

    def database(self, running: RunningConnector, password: Mapping[str, Any]) -> dict[str, Any]:
        """The block `database` of the entry."""

    def capture(self, running: RunningConnector) -> dict[str, Any]:
        """The names and forms of the block `capture` that this kind has."""

    def look(self, running: RunningConnector, source: CapturedSource) -> FoundAtSource:
        """What the server says; the source has its address, and no tables that mean anything yet."""


def secret_reference(source: str, placeholder: str) -> dict[str, Any]:
    """The reference for a password that the connector's config has as `placeholder`, or in clear."""
    for pattern, place in _PLACES:
        if found := re.fullmatch(pattern, placeholder):
            return {"secret": f"{source}_password", "on_connect": place(found)}
    if named := re.fullmatch(r"\$\{dir:[^:}]+:([A-Za-z0-9_.-]+)\}", placeholder):
        return {"secret": named[1]}
    return {"secret": f"{source}_password"}


def handling_modes(running: RunningConnector, modes: Mapping[str, str], ours: Mapping[str, str]) -> dict[str, str]:
    """The value forms (`decimal`, …) that are not `ours`, by the settings that tell them."""
    found = {name: running.setting(key) for name, key in modes.items()}
    return {name: value for name, value in found.items() if value is not None and value != ours[name]}
