"""One request to Connect: retried until a deadline while it rebalances (409), starts or is unreachable (5xx, no answer)."""

from __future__ import annotations

from typing import Any

import httpx
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from cdc_assets.errors import ConnectError, ConnectorExistsError
from cdc_assets.resources.authorities import authorities
from cdc_assets.resources.connect.masking import mask_text

_MESSAGE_LENGTH = 600


class _ConnectBusyError(Exception):
    """Connect is rebalancing, starting, or not reachable yet."""


class ConnectRest:
    """JSON requests to one Connect cluster; every method of Connect's REST that we use may be repeated.

    `login`: `user:password`, where it asks for one.
    """

    def __init__(self, url: str, *, deadline: float, transport: httpx.BaseTransport | None = None, login: str = "") -> None:
        self.url = url.rstrip("/")
        self._deadline = deadline
        user, _, password = login.partition(":")
        try:
            self._http = httpx.Client(
                base_url=self.url,
                timeout=min(30.0, deadline),
                transport=transport,
                trust_env=False,
                verify=authorities(),
                auth=(user, password) if login else None,
            )
        except httpx.InvalidURL as error:
            raise ConnectError(f"{url!r} is no address of a Connect cluster: {error}") from None
        if self._http.base_url.scheme not in ("http", "https"):
            raise ConnectError(f"{url!r} is no address of a Connect cluster: it begins with neither http:// nor https://")

    def request(self, method: str, path: str, *, json: Any = None, missing_ok: bool = False) -> Any:
        """The answer's JSON; None when it is empty, or when it is a 404 and `missing_ok`.

        Raises:
            ConnectError: with method, address and Connect's message, which quotes no secret of `json`.
        """
        retrying = Retrying(
            stop=stop_after_delay(self._deadline),
            wait=wait_exponential(multiplier=0.2, max=3.0),
            retry=retry_if_exception_type(_ConnectBusyError),
            reraise=True,
        )
        try:
            return retrying(self._once, method, path, json, missing_ok)
        except _ConnectBusyError as error:
            raise ConnectError(f"{method} {self.url}{path}: {error} (gave up after {self._deadline:.0f} s)") from error

    def _once(self, method: str, path: str, json: Any, missing_ok: bool) -> Any:
        try:
            response = self._http.request(method, path, json=json)
        except httpx.TransportError as error:
            raise _ConnectBusyError(f"no answer: {error or type(error).__name__}") from error
        if response.status_code == 404 and not _of_connect(response):
            raise _ConnectBusyError("HTTP 404 of the web server: Connect is starting")
        if response.status_code == 404 and missing_ok:
            return None
        if not response.is_error:
            return _json(method, response)
        if response.status_code == 401:
            where = "CDC_CORE_CONNECT_LOGIN_FILE or CDC_LAKE_CONNECT_LOGIN_FILE names a file with user:password"
            raise ConnectError(f"{method} {self.url}{path}: HTTP 401: this Connect asks for another login; {where}")
        message = _message(response, json)
        refusal = f"{method} {self.url}{path}: HTTP {response.status_code}: {message}"
        # Connect answers 409 while it rebalances as well: that a name is taken stands in the message alone. No retry mends it.
        if "already exists" in message:
            raise ConnectorExistsError(refusal)
        # Nor does one mend a class that the worker does not have (500).
        if response.status_code in (409, *range(500, 600)) and "BadRequestException" not in message:
            raise _ConnectBusyError(f"HTTP {response.status_code}: {message}")
        raise ConnectError(refusal)


def _json(method: str, response: httpx.Response) -> Any:
    """What a success says.

    Raises:
        ConnectError: nothing that Connect says: something else answers there, such as a proxy that asks for a login.
    """
    try:
        if response.is_success:
            return response.json() if response.content else None
    except ValueError:
        pass
    leads = f" to {response.headers['location']}" if "location" in response.headers else ""
    kind = response.headers.get("content-type", "no content type")
    raise ConnectError(f"{method} {response.url}: HTTP {response.status_code}{leads} ({kind}): that is not Kafka Connect")


def _of_connect(response: httpx.Response) -> bool:
    """Connect says in JSON what it does not find; its web server's 404, without a body or as a page, comes before Connect is up.

    A worker of Kafka 4 that starts gives the page for 4 to 7 s.
    """
    try:
        return "error_code" in response.json()
    except (ValueError, TypeError):
        return False


def _message(response: httpx.Response, sent: Any) -> str:
    """Connect's message in one line; it may quote what was sent, so secrets of that are taken out."""
    try:
        text = str(response.json().get("message", ""))
    except (ValueError, AttributeError):
        text = response.text
    config = sent.get("config", sent) if isinstance(sent, dict) else {}
    values = {str(key): value for key, value in config.items() if isinstance(value, str)} if isinstance(config, dict) else {}
    line = " ".join(part.strip() for part in text.splitlines() if part.strip())
    return mask_text(line, values)[:_MESSAGE_LENGTH] or "no message"
