"""Tables read again in the middle of the stream: asked for by signals, or by a connector that has forgotten its offsets.

What the second way loses, no fold can bring back: a connector without offsets streams from the place of its own
snapshot on, and what was committed before that place and after its last record is in the snapshot only as far as it is
still there. So nothing commits meanwhile. Transactions write, though: they are open while the tables are read, below
the snapshot's place in the log, and are committed behind it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from cdc_assets_tests.support.histories.play import Player
from cdc_assets_tests.support.live.live_source import LiveSource

SIGNALS = "public.signals"
PATIENCE = 300.0
"""Seconds until the connector streams again; it takes some 5."""


def signal(connection: Any, player: Player, mark: str, *, kind: str) -> None:
    """One table is read, while its log goes on (incremental) or waits (blocking)."""
    data = json.dumps({"data-collections": [f"public.{player.name}"], "type": kind})
    connection.execute(f"INSERT INTO {SIGNALS} VALUES (%s, 'execute-snapshot', %s)", (mark, data))
    player.did(kind)
    player.unknown = False


def restart(live: LiveSource, connection: Any, players: Sequence[Player]) -> None:
    """The connector forgets its offsets, keeps its slot, and begins with a snapshot of all tables.

    Raises:
        AssertionError: when it does not stream again.
    """
    name = f"{live.name}-capture"
    for player in players:
        player.finish()
    live.delivered(seconds=240)
    live.connect.stop(name)
    _until(connection, players, streams=False)
    live.connect.reset_offsets(name)
    _write(players, 6)
    live.connect.resume(name)
    _until(connection, players, streams=True)
    for player in players:
        player.did("restart")
        player.unknown = False


def _write(players: Sequence[Player], steps: int) -> None:
    for _ in range(steps):
        for player in players:
            player.step(ends=False)


def _until(connection: Any, players: Sequence[Player], *, streams: bool) -> None:
    """The slot is in use as soon as the snapshot has been read; nothing commits until then."""
    deadline = time.monotonic() + PATIENCE
    query = "SELECT coalesce(bool_or(active), false) FROM pg_replication_slots"
    while connection.execute(query).fetchone()[0] is not streams:
        assert time.monotonic() < deadline, f"the slot is{' not' * streams} in use {PATIENCE:.0f} s after the connector was told"
        _write(players, 1)
        time.sleep(0.05)
