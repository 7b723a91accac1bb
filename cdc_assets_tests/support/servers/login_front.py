"""A login before a server of HTTP that asks for none: who does not give it gets 401, as from a proxy before a schema registry."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

_HOP = {"transfer-encoding", "connection", "content-encoding", "content-length", "host", "authorization", "accept-encoding"}


@contextmanager
def login_front(behind: str, user: str, password: str) -> Iterator[str]:
    """The address that asks for the login, and passes on whatever has it to `behind`."""
    wanted = f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"
    client = httpx.Client(base_url=behind, timeout=30, trust_env=False)

    class Front(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.headers.get("Authorization") != wanted:
                self._answer(401, {"WWW-Authenticate": 'Basic realm="schemas"'}, b"")
                return
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
            answer = client.request(self.command, self.path, content=body, headers=headers)
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
            self._answer(answer.status_code, kept, answer.content)

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self._pass_on()

        def do_POST(self) -> None:
            self._pass_on()

        def log_message(self, *_: object) -> None:
            """Nothing to the tests' output."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        client.close()
