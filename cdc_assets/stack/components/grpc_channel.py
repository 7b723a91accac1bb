"""A gRPC channel for probing a server on this machine while it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import grpc


def local_channel(address: str) -> grpc.Channel:
    """To `host:port` or `unix:/path`, past any proxy; it knocks again within a second, where gRPC waits up to 120."""
    import grpc

    options = [
        ("grpc.enable_http_proxy", 0),
        ("grpc.initial_reconnect_backoff_ms", 300),
        ("grpc.max_reconnect_backoff_ms", 1000),
    ]
    return grpc.insecure_channel(address, options=options)
