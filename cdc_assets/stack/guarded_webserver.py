"""Dagster's webserver behind a guard: it has no login of its own, and does what any page in the browser asks it to.

Executed as `python -m cdc_assets.stack.guarded_webserver` with dagster-webserver's own arguments; the token comes by the
variable CDC_DAGSTER_TOKEN. What is refused: another host's name (DNS rebinding), a page of another origin, also for
WebSockets, GraphQL by GET, which Dagster executes with its mutations, and whoever does not know the token.
"""

from __future__ import annotations

import os
from http import HTTPStatus
from secrets import compare_digest
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cdc_assets.stack.components.dagster_services import TOKEN_VARIABLE
from cdc_assets.stack.loopback import Refused, foreign

# Beside Dagster's own policy, which stands in its page: a browser keeps to both. https://www.w3.org/TR/CSP3/#multiple-policies
_HEADERS = (
    (b"content-security-policy", b"frame-ancestors 'none'; img-src 'self' data: blob:; media-src 'self'; form-action 'self'"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
)
_NAMES = {name for name, _ in _HEADERS} - {b"content-security-policy"}
_ASK = "Open the address that ./cdc up prints at its end: it carries the token of this stack's Dagster.\n"


class Guard:
    """An ASGI application in front of another one; who brings the token by the address gets it as a cookie."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refused = foreign(headers) or self._unknown(scope, headers) or _by_get(scope, headers)
        if refused is None:
            await self._app(scope, receive, _with_headers(send))
            return
        status, why = refused
        opened = status is HTTPStatus.UNAUTHORIZED and scope["type"] == "http" and self._is_token(_query(scope).get("token"))
        answer = self._let_in(scope, headers) if opened else PlainTextResponse(why, status)
        await answer(scope, receive, _with_headers(send))

    def _unknown(self, scope: Scope, headers: Headers) -> Refused | None:
        scheme, _, brought = headers.get("authorization", "").partition(" ")
        kept = cookie_parser(headers.get("cookie", "")).get(_cookie(headers))
        if "token" not in _query(scope) and (self._is_token(kept) or (scheme.lower() == "bearer" and self._is_token(brought))):
            return None
        return HTTPStatus.UNAUTHORIZED, _ASK

    def _is_token(self, text: str | None) -> bool:
        return compare_digest((text or "").encode(), self._token.encode())

    def _let_in(self, scope: Scope, headers: Headers) -> Response:
        # To the same page without the token, which would stay in the browser's history.
        rest = urlencode({name: value for name, value in _query(scope).items() if name != "token"})
        # One slash: two would lead to another host.
        page = "/" + str(scope["path"]).lstrip("/\\")
        answer = RedirectResponse(page + ("?" + rest if rest else ""), HTTPStatus.SEE_OTHER)
        answer.set_cookie(_cookie(headers), self._token, httponly=True, samesite="lax")
        return answer


def _with_headers(send: Send) -> Send:
    """With headers of ours: the page is in no frame of another one's, and loads nothing from elsewhere, whatever a text says."""

    async def send_closed(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            kept = [(name, value) for name, value in message["headers"] if name.lower() not in _NAMES]
            message = {**message, "headers": [*kept, *_HEADERS]}
        await send(message)

    return send_closed


def _by_get(scope: Scope, headers: Headers) -> Refused | None:
    if scope["type"] != "http" or scope["method"] == "POST" or str(scope["path"]).rstrip("/") != "/graphql":
        return None
    # GraphiQL, which then asks by POST.
    if "text/html" in headers.get("accept", ""):
        return None
    return HTTPStatus.METHOD_NOT_ALLOWED, "GraphQL is asked by POST.\n"


def _query(scope: Scope) -> dict[str, str]:
    return dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))


def _cookie(headers: Headers) -> str:
    # A name for each port: a browser sends a host's cookies to all its ports, and where the system has one address alone, or by
    # tunnels, two stacks may have one.
    return f"cdc_dagster_{headers.get('host', '').rpartition(':')[2]}"


def main() -> None:
    """dagster-webserver, with its application behind the guard."""
    from dagster_webserver import cli

    token, make = os.environ.pop(TOKEN_VARIABLE), cli.create_app_from_workspace_process_context

    def make_guarded(*arguments: Any, **named: Any) -> Any:
        return Guard(make(*arguments, **named), token)

    cli.create_app_from_workspace_process_context = make_guarded
    cli.main()


if __name__ == "__main__":
    main()
