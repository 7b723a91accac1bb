"""Errors of the embedded stack: each names the component, the reason and the command to run next."""

from __future__ import annotations

from pathlib import Path

from cdc_assets.registry.errors import CdcAssetsError


class StackError(CdcAssetsError):
    """A part of the stack cannot do its work."""

    def __init__(self, component: str, reason: str, next_command: str, *, log: Path | None = None) -> None:
        where = f"\n  log: {log}" if log else ""
        super().__init__(f"{component}: {reason}{where}\n  next: {next_command}")
        self.component = component
        self.reason = reason
        self.next_command = next_command
        self.log = log


class NotReadyError(Exception):
    """A probe's answer: not yet, or not any more; the text says what it saw."""
