"""Keys that earlier versions knew, and what is declared instead."""

from __future__ import annotations

from collections.abc import Mapping

REMOVED_KEYS: Mapping[tuple[int | str, ...], str] = {
    ("sink",): (
        "sink connectors are no longer declared here; declare backup: with store, hours and values instead "
        "(docs/how-to/restore.md), such as hours: '{yyyy}-{MM}-{dd}/{HH}' and values: json. A sink connector that runs is left "
        "as it is: keep its config elsewhere, or delete it (cdc stop, then Connect's REST API)"
    ),
}
