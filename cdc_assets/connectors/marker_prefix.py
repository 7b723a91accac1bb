"""The prefix of the logical messages that a PostgreSQL connector sends on: those of its heartbeat, and our markers.

`pg_logical_emit_message` is everybody's by default. Under a prefix that is known to all, a message of 12 MB of anybody's would be
a record that no producer sends, at each start of the connector. So each connector has a prefix of its own, drawn at random; its
config on Connect keeps it, and messages under others are dropped by Debezium. A connector that git deploys has the public one: a
random text would change its manifest each time that it is rendered.
https://debezium.io/documentation/reference/3.7/connectors/postgresql.html#postgresql-property-message-prefix-include-list
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping

from cdc_assets.names import MARKER_PREFIX

DRAWN_PREFIX = "(drawn prefix)"
"""What a declared config has in its place."""
SETTING = "message.prefix.include.list"
_OWN = re.compile(rf"{MARKER_PREFIX}_[0-9a-f]{{32}}")


def settle_prefix(declared: Mapping[str, str], running: Mapping[str, str] | None) -> dict[str, str]:
    """The declared config with the running connector's prefix, else a new one; where another list is declared, its own, else the
    public one, as that list may have it."""
    listed = declared.get(SETTING, "")
    if DRAWN_PREFIX in listed:
        kept = _OWN.search((running or {}).get(SETTING, ""))
        return _with_prefix(declared, kept[0] if kept else f"{MARKER_PREFIX}_{secrets.token_hex(16)}")
    own = _OWN.search(listed)
    return _with_prefix(declared, own[0] if own else MARKER_PREFIX)


def with_public_prefix(declared: Mapping[str, str]) -> dict[str, str]:
    """The same at each rendering."""
    return _with_prefix(declared, MARKER_PREFIX)


def prefix_of(running: Mapping[str, str] | None) -> str:
    """What a running connector takes for ours."""
    own = _OWN.search((running or {}).get(SETTING, ""))
    return own[0] if own else MARKER_PREFIX


def _with_prefix(declared: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key: value.replace(DRAWN_PREFIX, prefix) for key, value in declared.items()}
