"""No config value that may be a secret gets into a message or onto a screen."""

from __future__ import annotations

import httpx
import pytest

from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.connector_states import HIDDEN, mask_config, mask_text, mask_value
from cdc_assets.registry.errors import ServiceError

CANARY = "canary-77aa"


@pytest.mark.parametrize(
    "key",
    [
        "database.password",
        "producer.override.sasl.jaas.config",
        "value.converter.basic.auth.user.info",
        "mongodb.connection.string",
        "aws.secret.access.key",
        "s3.access.key.id",
        "schema.history.internal.consumer.ssl.keystore.key",
        "api_key",
    ],
)
def test_a_key_that_tells_of_a_secret_is_hidden(key: str) -> None:
    assert mask_value(key, CANARY) == HIDDEN
    assert mask_value(key, "${dir:/run/secrets:shop}") == "${dir:/run/secrets:shop}"
    assert CANARY not in mask_value(key, f"${{dir:/run/secrets:shop}}{CANARY}")


@pytest.mark.parametrize("key", ["message.key.columns", "key.converter", "table.include.list", "topic.prefix", "tasks.max"])
def test_what_is_no_secret_is_shown(key: str) -> None:
    assert mask_value(key, "x.y") == "x.y"


def test_a_password_by_type_is_hidden_whatever_its_key() -> None:
    assert mask_config({"pin": CANARY, "a": "1"}, {"pin"}) == {"a": "1", "pin": HIDDEN}


@pytest.mark.parametrize(
    "text",
    [
        f"cannot reach jdbc:postgresql://u:{CANARY}@db/shop",
        f"mongodb://u:{CANARY}@db: refused",
        f"jdbc:oracle:thin:u/{CANARY}@//db:1521/ORCL",
        f"jdbc:sqlserver://db;password={CANARY};x=1",
        f'PlainLoginModule required username="u" password="{CANARY}";',
    ],
)
def test_a_password_inside_a_text_is_hidden(text: str) -> None:
    assert CANARY not in mask_text(text)


def test_a_message_that_quotes_the_config_quotes_no_secret() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            400, json={"message": f"invalid and contains 1 error(s):\nInvalid value {CANARY} for database.password"}
        )

    client = ConnectClient("http://connect", transport=httpx.MockTransport(refuse))
    with pytest.raises(ServiceError, match="1 error.*Invalid value .hidden. for") as error:
        client.put_config("c", {"database.password": CANARY, "name": "c"})
    assert CANARY not in str(error.value)


def test_findings_of_a_password_by_type_are_hidden() -> None:
    def find(request: httpx.Request) -> httpx.Response:
        value = {"name": "pin", "errors": [f"{CANARY} is too short"], "value": CANARY}
        return httpx.Response(200, json={"configs": [{"definition": {"name": "pin", "type": "PASSWORD"}, "value": value}]})

    client = ConnectClient("http://connect", transport=httpx.MockTransport(find))
    assert client.validate({"connector.class": "a.B", "pin": CANARY}) == {"pin": [f"{HIDDEN} is too short"]}


def test_a_name_that_is_taken_is_told_at_once() -> None:
    def taken(request: httpx.Request) -> httpx.Response:
        return httpx.Response(409, json={"message": "Connector c already exists"})

    client = ConnectClient("http://connect", deadline=60, transport=httpx.MockTransport(taken))
    with pytest.raises(ServiceError, match="already exists"):
        client.create("c", {"name": "c"}, initial_state="STOPPED")
