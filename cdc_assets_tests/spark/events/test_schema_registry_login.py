"""A schema registry behind a login: it is asked with it, and no message shows it."""

from __future__ import annotations

import json
import threading
import time
from base64 import b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from cdc_assets.registry.errors import RegistryError
from cdc_assets.registry.loader import load_source
from cdc_assets_tests.support.lake.avro import registry
from spark.errors import EndpointError
from spark.events.avro_schemas import UNKNOWN_SECONDS, avro_schema, without_login

CANARY = "s3cr%2Ft-canary"


class Registry(BaseHTTPRequestHandler):
    """Knows schema 1, refers from schema 2, is broken at 3; and remembers who has asked."""

    logins: list[str]

    def do_GET(self) -> None:
        self.logins.append(self.headers.get("Authorization", ""))
        number = self.path.rpartition("/")[2]
        if number == "4":
            self.send_response(307)
            self.send_header("Location", f"http://localhost:{self.server.server_port}/schemas/ids/1")
            self.end_headers()
            return
        told = {"1": {"schema": '"string"'}, "2": {"schema": "1", "references": [{"name": "other"}]}}.get(number)
        self.send_response(500 if told is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(told or {}).encode())

    def log_message(self, *_: object) -> None:
        """Nothing to the tests' output."""


@pytest.fixture
def place() -> Iterator[str]:
    Registry.logins = []
    server = HTTPServer(("127.0.0.1", 0), Registry)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_it_is_asked_with_the_login_of_its_address(place: str) -> None:
    assert avro_schema(f"http://reader:{CANARY}@{place}/api", 1) == "string"
    (said,) = Registry.logins
    assert b64decode(said.removeprefix("Basic ")) == b"reader:s3cr/t-canary"
    assert avro_schema(f"http://{place}", 1) == "string"
    assert Registry.logins[1:] == [""]


def test_an_unknown_id_is_asked_for_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with registry() as kept:
        assert [avro_schema(kept.url, 1) for _ in range(3)] == [None] * 3
        kept.register("late", "string")
        assert avro_schema(kept.url, 1) is None
        assert kept.asked == ["/schemas/ids/1"]
        now[0] += UNKNOWN_SECONDS
        assert [avro_schema(kept.url, 1) for _ in range(3)] == ["string"] * 3
        assert kept.asked == ["/schemas/ids/1"] * 2


def test_another_host_that_it_points_to_does_not_get_the_login(place: str) -> None:
    assert avro_schema(f"http://reader:{CANARY}@{place}", 4) == "string"
    first, second = Registry.logins
    assert (first[:6], second) == ("Basic ", "")


@pytest.mark.parametrize("password", ["a/canary", "a#canary", "a?canary", "a/canary@b"])
def test_a_login_that_breaks_its_address_is_refused_unseen(password: str, tmp_path: Path) -> None:
    with pytest.raises(EndpointError, match="%2F") as error:
        avro_schema(f"https://reader:{password}@host", 1)
    assert "canary" not in str(error.value)
    file = tmp_path / "shop.yaml"
    for address in (f"https://reader:{password}@host", f"htp://reader:{password}@host"):
        file.write_text(f"source: shop\nkind: topics\nschema_registry: '{address}'\ntables: [{{name: a.b, topic: t}}]\n")
        with pytest.raises(RegistryError) as refused:
            load_source(file)
        assert "schema" in str(refused.value)
        assert "canary" not in str(refused.value)


def test_a_password_in_the_registry_is_refused_unseen(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    for password in ("canary", "{secret: 'canary !'}", "[canary]"):
        file.write_text(
            "source: shop\ntables: [{name: a.b}]\n"
            f"database: {{kind: postgresql, host: a, port: 1, dbname: d, user: u, password: {password}}}\n"
        )
        with pytest.raises(RegistryError, match="database.password") as refused:
            load_source(file)
        assert "canary" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 3])
def test_no_message_shows_it(place: str, number: int) -> None:
    with pytest.raises(EndpointError) as error:
        avro_schema(f"http://reader:{CANARY}@{place}", number)
    assert place in str(error.value)
    assert "canary" not in str(error.value)


def test_neither_where_nobody_answers() -> None:
    with pytest.raises(EndpointError) as error:
        avro_schema(f"http://reader:{CANARY}@127.0.0.1:1", 1)
    assert "canary" not in str(error.value)
    with pytest.raises(EndpointError) as error:
        avro_schema(f"ftp://reader:{CANARY}@host", 1)
    assert "canary" not in str(error.value)


def test_an_address_without_a_login_is_left_as_it_is() -> None:
    assert without_login("https://host:8081/api") == ("https://host:8081/api", {})
