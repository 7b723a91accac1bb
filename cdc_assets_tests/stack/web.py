"""A web server on 127.0.0.1 that serves bytes: stands for PyPI, a mirror, or a Maven repository."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Site:
    """What is served, and what was asked for."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        # Answers that come before the file itself, per path: a status (400 to 599), or after how many bytes the line breaks.
        self.failures: dict[str, list[int]] = {}
        self.requests: list[tuple[str, str | None, str | None]] = []
        self.url = ""
        self.ranges = True


@contextmanager
def serve() -> Iterator[Site]:
    site = Site()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            site.requests.append((self.path, self.headers.get("Range"), self.headers.get("Authorization")))
            content = site.files.get(self.path)
            failure = site.failures.get(self.path, [])
            step = failure.pop(0) if failure else None
            if content is None or (step is not None and 400 <= step < 600):
                self.send_response(404 if content is None else step or 404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            begin, end = self._range(len(content))
            self.send_response(206 if (begin, end) != (0, len(content)) else 200)
            self.send_header("Content-Length", str(end - begin))
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")
            self.end_headers()
            self.wfile.write(content[begin : end if step is None else begin + step])
            if step is not None:
                self.wfile.flush()
                self.close_connection = True

        def _range(self, size: int) -> tuple[int, int]:
            asked = self.headers.get("Range") if site.ranges else None
            if not asked:
                return 0, size
            begin, _, last = asked.removeprefix("bytes=").partition("-")
            return int(begin), int(last) + 1 if last else size

        def log_message(self, *_: object) -> None:
            """Silent: `requests` has it all."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
