"""A source's one declared window table, as its server's SQL answers it."""

from __future__ import annotations

from typing import Any

from cdc_assets.chain.windowed_results import can_ask, windows_of
from cdc_assets.clients.kind_clients import clients_of
from cdc_assets.registry.source_declaration import CapturedSource


def ask_server(source: CapturedSource) -> dict[Any, tuple[Any, ...]]:
    """By group and window (its start, in microseconds since 1970): the measures."""
    (windows,) = windows_of(source)
    assert can_ask(windows)
    read = clients_of(source.kind_name).windows
    assert read is not None
    rows = read(source.database, windows.table.id, windows.spec("/lake"))
    return {found[:2]: tuple(found[2:]) for found in rows}
