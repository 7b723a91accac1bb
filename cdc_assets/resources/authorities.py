"""The authorities of TLS, read once in a process: httpx reads them for each client, 15 ms also for one that speaks no TLS."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


@cache
def authorities() -> ssl.SSLContext:
    """Those that httpx trusts by default where the environment is not asked (`trust_env=False`); for its `verify`."""
    import httpx

    return httpx.create_ssl_context(trust_env=False)
