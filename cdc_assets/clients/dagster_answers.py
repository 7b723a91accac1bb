"""What Dagster's webserver answers by GraphQL: the same that its pages show, without loading Dagster.

The authorities of TLS are read once in a process, for all clients of HTTP: httpx reads them for each client, 15 ms also for one
that speaks no TLS. A webserver that is away, or silent, is told apart.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from cdc_assets.registry import settings
from cdc_assets.registry.errors import ServiceError

if TYPE_CHECKING:
    import ssl


@cache
def authorities() -> ssl.SSLContext:
    """Those that httpx trusts by default where the environment is not asked (`trust_env=False`); for its `verify`."""
    import httpx

    return httpx.create_ssl_context(trust_env=False)


class DagsterAnswers:
    """Questions to the webserver at `url` (default: CDC_DAGSTER_URL); each is answered within `seconds`."""

    def __init__(self, url: str | None = None, *, seconds: float = 30.0) -> None:
        self.url, self._seconds = (url or settings.address("CDC_DAGSTER_URL")).rstrip("/"), seconds
        key = settings.key(self.url)
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    def ask(self, query: str, **variables: Any) -> dict[str, Any]:
        """The answer's `data`. Raises ServiceError: with the address, and what it says instead."""
        import httpx

        try:
            body = {"query": query, "variables": variables}
            at, headers = f"{self.url}/graphql", self._headers
            trust = authorities()
            response = httpx.post(at, json=body, headers=headers, timeout=self._seconds, trust_env=False, verify=trust)
            if response.status_code in (401, 403):
                raise ServiceError(f"Dagster's webserver at {self.url} refuses: {response.text.strip()[:200]}")
            answer = response.json()
        except (httpx.HTTPError, ValueError) as error:
            trouble = f"Dagster's webserver at {self.url} does not answer: {error or type(error).__name__}"
            raise ServiceError(trouble, how="silent") from error
        if not answer.get("data") or answer.get("errors"):
            reasons = "; ".join(str(error.get("message")) for error in answer.get("errors", ())) or "no data"
            raise ServiceError(f"Dagster's webserver at {self.url} refuses a question: {reasons}")
        return dict(answer["data"])
