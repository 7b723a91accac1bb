"""A certificate for a PostgreSQL that was built without TLS: it speaks TLS before the real server, as PgBouncer does.

https://www.postgresql.org/docs/18/protocol-flow.html#PROTOCOL-FLOW-SSL
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path

from typing_extensions import Self

_ASKS_FOR_TLS = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"


class TlsFront:
    """Who does not ask for TLS is left without an answer."""

    def __init__(self, behind: int) -> None:
        self.behind = behind
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._context: ssl.SSLContext | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listening.getsockname()[1])

    def show(self, folder: Path) -> None:
        """The certificate of who comes from now on: `user.crt` and `user.key`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "user.crt", folder / "user.key")
        self._context = context

    def __enter__(self) -> Self:
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.close()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=self._listening.accept()[:1], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            if self._context is None or client.recv(8) != _ASKS_FOR_TLS:
                return
            client.sendall(b"S")
            with self._context.wrap_socket(client, server_side=True) as ours:
                with socket.create_connection(("127.0.0.1", self.behind)) as theirs:
                    _exchange(ours, theirs)


def _exchange(ours: ssl.SSLSocket, theirs: socket.socket) -> None:
    """By one thread: OpenSSL does not read and write one connection in two."""
    while True:
        readable = [ours] if ours.pending() else select.select([ours, theirs], [], [])[0]
        for source in readable:
            content = source.recv(1 << 16)
            if not content:
                return
            (theirs if source is ours else ours).sendall(content)
