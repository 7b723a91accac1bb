"""Kafka Connect's REST interface: declared config in, states and offsets out.

Connect answers 409 while it rebalances and 5xx while it starts; both are retried until a deadline, since a
PUT of a config is idempotent. `GET /connectors/<name>/config` returns configs in clear text (KAFKA-5117), so
configs hold only `${dir:…}` placeholders and no config value is ever put into a message here.
REST: https://kafka.apache.org/documentation/#connect_rest (offsets: KIP-875).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from cdc_assets.errors import ConnectError, ConnectorFailedError


class _TryAgainError(Exception):
    """Connect is rebalancing, starting, or not reachable yet."""


@dataclass(frozen=True)
class ConnectorStatus:
    """States of a connector and of each of its tasks; `trace` holds the first line of each failure."""

    name: str
    state: str
    tasks: tuple[str, ...]
    trace: tuple[str, ...]

    @property
    def running(self) -> bool:
        """The connector and every task, and at least one task (a connector is RUNNING while its task is FAILED)."""
        return self.state == "RUNNING" and bool(self.tasks) and all(task == "RUNNING" for task in self.tasks)

    @property
    def failed(self) -> bool:
        """The connector or any task is FAILED."""
        return "FAILED" in (self.state, *self.tasks)


class ConnectClient:
    """One Connect cluster."""

    def __init__(self, url: str, *, deadline: float = 60.0, transport: httpx.BaseTransport | None = None) -> None:
        self.url = url.rstrip("/")
        self._deadline = deadline
        self._http = httpx.Client(base_url=self.url, timeout=30.0, transport=transport, trust_env=False)

    def connectors(self) -> list[str]:
        """Names of all connectors."""
        return sorted(self._request("GET", "/connectors"))

    def config(self, name: str) -> dict[str, str] | None:
        """The connector's config as Connect holds it, or None when there is no such connector."""
        return self._request("GET", f"/connectors/{quote(name, safe='')}/config", missing_ok=True)

    def validate(self, config: dict[str, str]) -> dict[str, list[str]]:
        """Connect's own findings, by config key; empty when the config is valid. Values are never returned."""
        plugin = config["connector.class"].rsplit(".", 1)[-1]
        answer = self._request("PUT", f"/connector-plugins/{quote(plugin, safe='')}/config/validate", json=config)
        return {item["value"]["name"]: item["value"]["errors"] for item in answer["configs"] if item["value"]["errors"]}

    def put_config(self, name: str, config: dict[str, str]) -> None:
        """Create the connector, or replace its config."""
        self._request("PUT", f"/connectors/{quote(name, safe='')}/config", json=config)

    def status(self, name: str) -> ConnectorStatus | None:
        """Connector and task states, or None when there is no such connector (or no status yet)."""
        answer = self._request("GET", f"/connectors/{quote(name, safe='')}/status", missing_ok=True)
        if answer is None:
            return None
        parts = [answer["connector"], *answer["tasks"]]
        trace = tuple(part["trace"].splitlines()[0] for part in parts if part.get("trace"))
        return ConnectorStatus(name, answer["connector"]["state"], tuple(t["state"] for t in answer["tasks"]), trace)

    def restart_failed(self, name: str) -> None:
        """Restart only what has FAILED."""
        self._request("POST", f"/connectors/{quote(name, safe='')}/restart?includeTasks=true&onlyFailed=true")

    def offsets(self, name: str) -> list[dict[str, Any]]:
        """The connector's committed source offsets: `[{"partition": {...}, "offset": {...}}]`."""
        answer = self._request("GET", f"/connectors/{quote(name, safe='')}/offsets", missing_ok=True)
        return [] if answer is None else answer["offsets"]

    def delete(self, name: str) -> None:
        """Remove the connector; its offsets stay in Connect's offsets topic."""
        self._request("DELETE", f"/connectors/{quote(name, safe='')}", missing_ok=True)

    def wait_running(self, name: str, *, deadline: float = 120.0) -> ConnectorStatus:
        """Wait until the connector and every task run.

        Raises:
            ConnectorFailedError: at once when a task is FAILED after one restart of what failed.
            ConnectError: when the deadline passes.
        """
        until = time.monotonic() + deadline
        restarted = False
        status: ConnectorStatus | None = None
        while time.monotonic() < until:
            status = self.status(name)
            if status and status.running:
                return status
            if status and status.failed:
                if restarted:
                    reason = "; ".join(status.trace) or "no trace given"
                    raise ConnectorFailedError(f"connector {name} at {self.url}: {status.state}, tasks {status.tasks}: {reason}")
                self.restart_failed(name)
                restarted = True
                time.sleep(2.0)
            time.sleep(0.25)
        seen = f"{status.state}, tasks {status.tasks}" if status else "no status"
        raise ConnectError(f"connector {name} at {self.url} is not running after {deadline:.0f} s: {seen}")

    def _request(self, method: str, path: str, *, json: Any = None, missing_ok: bool = False) -> Any:
        retrying = Retrying(
            stop=stop_after_delay(self._deadline),
            wait=wait_exponential(multiplier=0.2, max=3.0),
            retry=retry_if_exception_type(_TryAgainError),
            reraise=True,
        )
        try:
            return retrying(self._once, method, path, json, missing_ok)
        except _TryAgainError as error:
            raise ConnectError(f"{method} {self.url}{path}: {error} (gave up after {self._deadline:.0f} s)") from error

    def _once(self, method: str, path: str, json: Any, missing_ok: bool) -> Any:
        try:
            response = self._http.request(method, path, json=json)
        except httpx.TransportError as error:
            raise _TryAgainError(f"no answer: {error or type(error).__name__}") from error
        if response.status_code == 404 and missing_ok:
            return None
        # A class that the worker does not have is answered with 500, and no retry mends it.
        refused = "BadRequestException" in _message(response)
        if response.status_code == 409 or (response.status_code >= 500 and not refused):
            raise _TryAgainError(f"HTTP {response.status_code}: {_message(response)}")
        if response.is_error:
            raise ConnectError(f"{method} {self.url}{path}: HTTP {response.status_code}: {_message(response)}")
        return response.json() if response.content else None


def _message(response: httpx.Response) -> str:
    """Connect's message, first line only: the lines after it may quote config values."""
    try:
        text = str(response.json().get("message", ""))
    except (ValueError, AttributeError):
        text = response.text
    return (text.splitlines() or ["no message"])[0][:300]
