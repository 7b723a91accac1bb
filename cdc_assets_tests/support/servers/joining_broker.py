"""A Kafka broker that has, or has not yet, been told of its cluster: it answers ApiVersions and Metadata, by the protocol.

https://kafka.apache.org/protocol (ApiVersions 0, Metadata 4)
"""

from __future__ import annotations

import socket
import struct
import threading

HOST = b"127.0.0.1"
_METADATA, _API_VERSIONS = 3, 18
_UNKNOWN_TOPIC, _UNSUPPORTED_VERSION = 3, 35


class JoiningBroker:
    """Listens from its making on; its first `joined` answers name itself, all later ones no broker at all."""

    def __init__(self, joined: int) -> None:
        self.left = joined
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=(client,), daemon=True).start()

    def _talk(self, client: socket.socket) -> None:
        with client, client.makefile("rb") as asked:
            while len(head := asked.read(4)) == 4:
                request = asked.read(struct.unpack(">i", head)[0])
                key, version, correlation = struct.unpack(">hhi", request[:8])
                body = self._metadata(request) if key == _METADATA else self._versions(version)
                client.sendall(struct.pack(">ii", len(body) + 4, correlation) + body)

    def _versions(self, version: int) -> bytes:
        apis = ((_METADATA, 0, 4), (_API_VERSIONS, 0, 0))
        error = _UNSUPPORTED_VERSION if version else 0
        return struct.pack(">hi", error, len(apis)) + b"".join(struct.pack(">hhh", *api) for api in apis)

    def _metadata(self, request: bytes) -> bytes:
        client_id = struct.unpack(">h", request[8:10])[0]
        topics, at = struct.unpack(">i", request[10 + client_id : 14 + client_id])[0], 14 + client_id
        told = b""
        for _ in range(max(topics, 0)):
            length = struct.unpack(">h", request[at : at + 2])[0]
            told += struct.pack(">h", _UNKNOWN_TOPIC) + request[at : at + 2 + length] + struct.pack(">bi", 0, 0)
            at += 2 + length
        joined, self.left = self.left > 0, self.left - 1
        me = struct.pack(">ih", 1, len(HOST)) + HOST + struct.pack(">ih", self.port, -1)
        brokers = struct.pack(">i", 1) + me if joined else struct.pack(">i", 0)
        cluster = struct.pack(">h", 5) + b"kafka" + struct.pack(">i", 1 if joined else -1)
        return struct.pack(">i", 0) + brokers + cluster + struct.pack(">i", max(topics, 0)) + told
