"""The guard in front of Dagster's webserver, around an application that answers everything with `done`."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from cdc_assets.stack.guarded_webserver import Guard

TOKEN, AT = "s3cret", "http://127.0.0.1:3000"
KEY = {"Authorization": f"Bearer {TOKEN}"}


def ask(method: str, path: str, **headers: str) -> httpx.Response:
    async def answer(request: Request) -> PlainTextResponse:
        return PlainTextResponse(f"done {request.url.query}")

    guard = Guard(Starlette(routes=[Route("/{path:path}", answer, methods=["GET", "POST", "PUT"])]), TOKEN)

    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(guard), base_url=AT) as client:
            return await client.request(method, AT + path, headers=headers)

    return asyncio.run(asked())


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:3000", "evil.example:3000@127.0.0.1", "", "[::2]:1"])
def test_another_name_of_this_machine_is_refused(host: str) -> None:
    assert ask("POST", "/graphql", Host=host, **KEY).status_code in (HTTPStatus.FORBIDDEN, HTTPStatus.BAD_REQUEST)


@pytest.mark.parametrize("host", ["127.0.0.1:3000", "localhost:8080", "[::1]:3000", "localhost"])
def test_a_tunnel_may_have_another_port(host: str) -> None:
    assert ask("POST", "/graphql", Host=host, Origin=f"http://{host}", **KEY).status_code == HTTPStatus.OK


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:3001", "http://127.0.0.1", "http://[::1"])
def test_a_page_of_another_origin_is_refused(origin: str) -> None:
    for method in ("GET", "POST"):
        assert ask(method, "/graphql", Origin=origin, **KEY).status_code == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("protocol", ["graphql-ws", "graphql-transport-ws", ""])
@pytest.mark.parametrize("path", ["/graphql", "//graphql/", "/elsewhere"])
def test_a_socket_of_another_origin_is_never_opened(protocol: str, path: str) -> None:
    """Whatever it wants to speak, and wherever: the application behind the guard does not hear of it."""
    own, key = {"origin": AT}, {"authorization": KEY["Authorization"]}
    assert open_socket(path, protocol, {**own, **key}) == ("websocket.accept", None)
    for origin in ("http://evil.example", "null", "http://127.0.0.1:3001", "ws://127.0.0.1:3000"):
        assert open_socket(path, protocol, {"origin": origin, **key}) == ("websocket.http.response.start", HTTPStatus.FORBIDDEN)
    assert open_socket(path, protocol, own) == ("websocket.http.response.start", HTTPStatus.UNAUTHORIZED)


def open_socket(path: str, protocol: str, headers: dict[str, str]) -> tuple[str, int | None]:
    """What a WebSocket's opening is answered with first."""
    answers: list[Message] = []

    async def accept(_: Scope, __: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        answers.append(message)

    given = {"host": AT.removeprefix("http://"), **headers}
    named = [(name.encode(), value.encode()) for name, value in given.items()]
    scope = {
        "type": "websocket",
        "path": path,
        "query_string": b"",
        "headers": named,
        "subprotocols": [protocol] if protocol else [],
    }
    asyncio.run(Guard(accept, TOKEN)(scope, receive, send))
    return answers[0]["type"], answers[0].get("status")


@pytest.mark.parametrize("path", ["/graphql?query=mutation{x}", "/graphql/?query=mutation{x}"])
def test_graphql_is_asked_by_post(path: str) -> None:
    for method in ("GET", "PUT"):
        assert ask(method, path, **KEY).status_code == HTTPStatus.METHOD_NOT_ALLOWED
    assert ask("POST", path, **KEY).status_code == HTTPStatus.OK


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Cookie": f"cdc_dagster_3001={TOKEN}"},
        {"Cookie": "cdc_dagster_3000=wrong"},
    ],
)
def test_nobody_is_served_without_the_token(headers: dict[str, str]) -> None:
    for path in ("/", "/graphql", "/server_info", "/?token=wrong", "/?token="):
        assert ask("POST", path, **headers).status_code == HTTPStatus.UNAUTHORIZED


def test_no_page_frames_it_and_no_text_loads_anything_from_elsewhere() -> None:
    for answer in (ask("GET", "/", **KEY), ask("GET", "/"), ask("GET", f"/?token={TOKEN}")):
        policy = answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "img-src 'self' data: blob:;" in policy
        assert (answer.headers["x-frame-options"], answer.headers["referrer-policy"]) == ("DENY", "no-referrer")


def test_the_token_of_the_address_becomes_a_cookie() -> None:
    opened = ask("GET", f"//evil.example/runs?view=a%26b&token={TOKEN}")
    assert (opened.status_code, opened.headers["location"]) == (HTTPStatus.SEE_OTHER, "/evil.example/runs?view=a%26b")
    cookie = opened.headers["set-cookie"].partition(";")[0]
    assert ask("GET", "/runs", Cookie=cookie).text == "done "
    assert ask("GET", f"/runs?token={TOKEN}", Origin="http://evil.example").status_code == HTTPStatus.FORBIDDEN
