"""A schema registry that knows mode IMPORT, by what Confluent documents of it; one that counts its ids is Apicurio, for real.

https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


@dataclass
class ImportRegistry:
    """`subjects`: of each its versions; `in_import`: those that take ids, and nothing else."""

    subjects: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    in_import: set[str] = field(default_factory=set)
    posts_until_it_fails: int = 1_000
    url: str = ""

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        what, *rest = [unquote(each) for each in urlsplit(path).path.strip("/").split("/")]
        if what == "schemas":
            found = [each for versions in self.subjects.values() for each in versions if each["id"] == int(rest[1])]
            return (200, {"schema": found[0]["schema"]}) if found else (404, {"error_code": 40403})
        if what == "mode":
            return self._mode(method, rest[0], body)
        versions = self.subjects.get(rest[0], [])
        if method == "POST":
            return self._post(rest[0], body)
        if len(rest) == 2:
            return (200, [each["version"] for each in versions]) if versions else (404, {"error_code": 40401})
        return 200, next(each for each in versions if each["version"] == int(rest[2]))

    def _mode(self, method: str, subject: str, body: Any) -> tuple[int, Any]:
        if method == "GET":
            return (200, {"mode": "IMPORT"}) if subject in self.in_import else (404, {"error_code": 40409})
        (self.in_import.add if method == "PUT" else self.in_import.discard)(subject)
        return 200, {"mode": body["mode"]} if body else {"mode": "IMPORT"}

    def _post(self, subject: str, body: Any) -> tuple[int, Any]:
        self.posts_until_it_fails -= 1
        if self.posts_until_it_fails < 0:
            return 500, {"error_code": 50001}
        if subject not in self.in_import or "id" not in body:
            return 422, {"error_code": 42205, "message": f"Subject {subject} is not in import mode"}
        self.subjects.setdefault(subject, []).append({"subject": subject, **body})
        return 200, {"id": body["id"]}


@contextmanager
def import_registry() -> Iterator[ImportRegistry]:
    registry = ImportRegistry()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            code, told = registry.answer(self.command, self.path, json.loads(self.rfile.read(length)) if length else None)
            data = json.dumps(told).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Nothing to the tests' output."""

    for method in ("GET", "POST", "PUT", "DELETE"):
        setattr(Handler, f"do_{method}", Handler._serve)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        registry.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield registry
        finally:
            server.shutdown()
