"""The way to a Spark Connect server: one for each process, also where the server asks for a token.

PySpark's own client wants TLS as soon as there is a token, but for the host `localhost`. That name may stand for two
addresses, and at the one where our server does not listen another user's program may, which would be given the token.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

import grpc
from pyspark.sql.connect.client import DefaultChannelBuilder
from typing_extensions import override

_HERE = ("localhost", "127.0.0.1")
_OPTIONS = {
    # A server that starts again is met within seconds; gRPC's own pauses grow to two minutes.
    "grpc.max_reconnect_backoff_ms": 2_000,
    # A host that is gone without a word is noticed 20 s after something was sent to it (gRFC A18), not after TCP's 15 minutes.
    # grpc-java refuses pings that come more often than every 5 minutes.
    "grpc.keepalive_time_ms": 360_000,
    "grpc.keepalive_timeout_ms": 20_000,
}
_Place = tuple[int, str, bool, "str | None"]
_opened: dict[_Place, grpc.Channel] = {}
_lock = threading.Lock()


class SharedChannel(DefaultChannelBuilder):
    """As PySpark's, but of all sessions of a process, which never close it.

    A token goes over the loopback to 127.0.0.1 alone. Elsewhere it goes over TLS alone.

    A channel for each session would be closed while a thread of PySpark's still says over it what it has read (ReleaseExecute).
    One of 4,000 such sessions ended the process with SIGSEGV in cygrpc of gRPC 1.85. That the thread then used what was freed
    is likely, and not proven.
    """

    def __init__(self, remote: str, interceptors: Sequence[Any] = ()) -> None:
        super().__init__(remote)
        self._seen_by = interceptors
        for name, value in _OPTIONS.items():
            self.setChannelOption(name, value)

    @override
    def toChannel(self) -> grpc.Channel:
        # A forked process has none of the threads that its parent's needs.
        key = (os.getpid(), self.endpoint, self.use_ssl, self.token)
        with _lock:
            if key not in _opened:
                _opened[key] = self._open()
            channel = _opened[key]
        return grpc.intercept_channel(channel, *self._seen_by) if self._seen_by else channel

    def _open(self) -> grpc.Channel:
        if self.token is None or self.use_ssl or self.host not in _HERE:
            return super().toChannel()
        token = grpc.access_token_call_credentials(self.token)
        credentials = grpc.composite_channel_credentials(grpc.local_channel_credentials(), token)
        return self._secure_channel(f"127.0.0.1:{self.endpoint.rpartition(':')[2]}", credentials)
