"""Which sessions share one way to a Spark Connect server; no server is needed to know it."""

from __future__ import annotations

import os

import pytest

from spark.table.connect_channel import SharedChannel


def test_sessions_of_one_process_and_server_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def way(port: int, token: str = "") -> object:
        builder = SharedChannel(f"sc://127.0.0.1:{port}")
        if token:
            builder.set("token", token)
        return builder.toChannel()

    own = way(1)
    assert way(1) is own
    assert len({id(each) for each in (own, way(2), way(1, "a"), way(1, "b"))}) == 4
    # A fork's: the threads that its parent's needs are not in it.
    monkeypatch.setattr(os, "getpid", lambda: -1)
    forked = way(1)
    assert forked is not own
    assert way(1) is forked
