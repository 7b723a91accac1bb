"""Connect's REST interface for one connector, with troubles that a test chooses."""

from __future__ import annotations

import json

import httpx

from cdc_assets.clients.connect import ConnectClient


class FakeConnect:
    """Connect's REST for one connector, with scripted troubles."""

    def __init__(
        self,
        *,
        conflicts: int = 0,
        trouble: int | None = 409,
        findings: dict[str, list[str]] | None = None,
        task: str = "RUNNING",
    ) -> None:
        self.trouble = trouble
        self.conflicts, self.findings, self.task = conflicts, findings or {}, task
        self.config: dict[str, str] | None = None
        self.puts = self.posts = self.restarts = self.reads = 0
        self.offsets: list[dict[str, object]] = []
        self.state = "RUNNING"
        self.put_while: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if self.conflicts and request.method in ("POST", "DELETE"):
            self.conflicts -= 1
            if self.trouble is None:
                raise httpx.ConnectError("refused")
            return httpx.Response(self.trouble, json={"message": "rebalancing, or starting"})
        if path.endswith("/validate"):
            values = [{"value": {"name": name, "errors": errors}} for name, errors in self.findings.items()]
            return httpx.Response(200, json={"configs": values})
        if path.startswith("/connector-plugins/"):
            return httpx.Response(200, json=[{"name": "pin", "type": "PASSWORD"}])
        if path.endswith("/c/config") and request.method == "PUT":
            self.puts += 1
            self.put_while.append(self.state)
            self.config = json.loads(request.content)
            return httpx.Response(201, json={})
        if path.endswith("/c/config"):
            self.reads += 1
            return (
                httpx.Response(404, json={"error_code": 404, "message": "no config"})
                if self.config is None
                else httpx.Response(200, json=self.config)
            )
        if path.endswith(("/stop", "/pause", "/resume")):
            self.state = {"stop": "STOPPED", "pause": "PAUSED", "resume": "RUNNING"}[path.rsplit("/", 1)[1]]
            return httpx.Response(202)
        if path == "/connectors":
            self.posts += 1
            sent = json.loads(request.content)
            self.config, self.state = sent["config"], sent["initial_state"]
            return httpx.Response(201, json={})
        if path.endswith("/offsets") and request.method == "DELETE":
            self.offsets = []
            return httpx.Response(200, json={"message": "reset"})
        if path.endswith("/offsets"):
            return httpx.Response(200, json={"offsets": self.offsets})
        if request.method == "DELETE":
            self.config = None
            return httpx.Response(204)
        if path.endswith("/restart"):
            self.restarts += 1
            return httpx.Response(202, json={})
        assert path.endswith("/status"), path
        if self.config is None:
            return httpx.Response(404, json={"error_code": 404, "message": "no status"})
        if self.state == "STOPPED" or not self.task:
            return httpx.Response(200, json={"connector": {"state": self.state}, "tasks": []})
        task = {"state": self.task, "trace": "org.example.Boom: no route\n\tat Frame" if self.task == "FAILED" else ""}
        return httpx.Response(200, json={"connector": {"state": self.state}, "tasks": [task]})

    def client(self) -> ConnectClient:
        return ConnectClient("http://connect", deadline=5, transport=httpx.MockTransport(self))


CONFIG = {"name": "c", "connector.class": "a.b.C", "x": "1"}
