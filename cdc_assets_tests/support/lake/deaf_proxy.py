"""Stands between a client and an object store, and drops chosen answers: the store has done it, and nobody is told."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

_OF_CONNECTION = frozenset({"connection", "transfer-encoding", "content-length"})


class DeafProxy:
    """Passes all on to the store at `behind`; answers that `drops` chooses by method, path and body are not passed back."""

    def __init__(self, behind: str) -> None:
        self.behind, self.path, self.url = urlsplit(behind).netloc, urlsplit(behind).path, ""
        self.drops: Callable[[str, str, bytes], bool] = lambda *_: False
        self.dropped: list[str] = []

    def pass_on(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        # With the Host that was signed.
        connection = http.client.HTTPConnection(self.behind, timeout=60)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()


@contextmanager
def deaf_proxy(behind: str) -> Iterator[DeafProxy]:
    proxy = DeafProxy(behind)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            if self.headers.get("Expect") == "100-continue":
                del self.headers["Expect"]
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, content = proxy.pass_on(self.command, self.path, dict(self.headers.items()), body)
            if proxy.drops(self.command, self.path, body):
                proxy.dropped.append(self.path)
                self.close_connection = True
                return
            self.send_response_only(status)
            for name, value in headers:
                if name.lower() not in _OF_CONNECTION:
                    self.send_header(name, value)
            length = dict(headers).get("Content-Length") if self.command == "HEAD" else str(len(content))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer  # noqa: N815 (names of http.server)

        def log_message(self, *_: object) -> None:
            """Silent: `dropped` has what counts."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}{proxy.path}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
