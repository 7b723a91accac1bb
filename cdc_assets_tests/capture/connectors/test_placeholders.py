"""Connect replaces `${provider:path:key}` wherever it stands in a config: no name of a source's may bring one there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdc_assets.capture.connectors.declared_connectors import declared_connectors
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.deploy.manifest import Deployment, StrimziCluster, secret_references
from cdc_assets.registry.errors import RefusalError, RegistryError, ServiceError
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.source_declaration import BaseSource

# Kafka's own, ConfigTransformer.DEFAULT_PATTERN: provider, path where there is one, key.
CONNECT = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
EVIL = "${dir:/secrets:bank_db_password}"
PARTS = "${dir:/secrets:bank.password}"
"""Of the schema and the table around the dot."""
KINDS = {
    "postgresql": "{kind: postgresql, host: db, dbname: %s, user: u, password: {secret: own}}",
    "mariadb": "{kind: mariadb, host: db, user: u, password: {secret: own}}",
    "mysql": "{kind: mysql, host: db, user: u, password: {secret: own}}",
    "sqlserver": "{kind: sqlserver, host: db, dbname: %s, user: u, password: {secret: own}}",
    "oracle": "{kind: oracle, host: db, dbname: %s, user: u, password: {secret: own}}",
    "mongodb": "{kind: mongodb, hosts: 'm:27017', user: u, password: {secret: own}}",
}
TABLES: dict[str, dict[str, Any]] = {
    "name": {"name": f'public."[/x]{EVIL}"'},
    "schema": {"name": f'"{EVIL}".t'},
    "both": {"name": PARTS},
    "keys": {"name": "public.t", "keys": [EVIL]},
    "left out": {"name": "public.t", "except_column_list": [EVIL]},
    "only": {"name": f'public."{EVIL}"', "only": True},
    "topic": {"name": "public.t", "topic": EVIL},
    "description": {"name": "public.t", "description": EVIL},
}
MORE: dict[str, dict[str, Any]] = {
    "signals": {"capture": {"signals": f'x."{EVIL}"'}},
    "reconciliation signals": {"reconciliation": {"signals": f'x."{EVIL}"', "marker": "x.m"}},
    "marker": {"reconciliation": {"signals": "x.s", "marker": f'x."{EVIL}"'}},
    "dbname": {"dbname": EVIL},
    "settings": {"capture": {"settings": {"unavailable.value.placeholder": EVIL}}},
    "a setting inside": {"capture": {"settings": {"custom.metric.tags": f"a={EVIL}"}}},
    "mirror settings": {"mirror": {"settings": {"topics": EVIL}}},
    "groups": {"mirror": {"checkpoints": {"groups": [EVIL]}}},
    "prefix": {"capture": {"topic_prefix": EVIL}},
    "slot": {"capture": {"slot": EVIL}},
}


@pytest.fixture(autouse=True)
def addresses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    for name in ("CDC_CORE_BOOTSTRAP", "CDC_LAKE_BOOTSTRAP"):
        monkeypatch.setenv(name, "127.0.0.1:1")


def declare(folder: Path, kind: str, table: dict[str, Any], more: dict[str, Any]) -> BaseSource | None:
    """None where the registry itself refuses it, by name."""
    rest = {key: value for key, value in more.items() if key != "dbname"}
    dbname = json.dumps(more.get("dbname", "shop"))
    database = KINDS[kind] % dbname if "%s" in KINDS[kind] else KINDS[kind]
    text = f"source: shop\ndatabase: {database}\n"
    text += "".join(f"{key}: {json.dumps(value)}\n" for key, value in {"tables": [table], **rest}.items())
    folder.mkdir(exist_ok=True)
    (folder / "shop.yaml").write_text(text)
    try:
        (source,) = load_sources(folder)
    except RegistryError:
        return None
    return source


def stands_in(config: dict[str, str]) -> dict[str, str]:
    """What Connect would replace, but for the source's own password."""
    found = {key: match[0] for key, value in config.items() if (match := CONNECT.search(value))}
    return {key: text for key, text in found.items() if "password" not in key or "bank" in text}


def write_manifest(config: dict[str, str], sent: list[str]) -> None:
    deployment = Deployment(
        namespace="kafka",
        core=StrimziCluster(kafka="core", connect="core", bootstrap="core:9092"),
        lake=StrimziCluster(kafka="lake", connect="lake", bootstrap="lake:9092"),
    )
    sent.append(json.dumps(secret_references(config, deployment)))


CASES = [(kind, name) for kind in KINDS for name in (*TABLES, *MORE)]


@pytest.mark.parametrize(("kind", "name"), CASES, ids=[f"{kind}, {name}" for kind, name in CASES])
def test_no_foreign_placeholder_reaches_connect_or_a_manifest(kind: str, name: str, tmp_path: Path) -> None:
    send_all(tmp_path, kind, TABLES.get(name, {"name": "public.t"}), MORE.get(name, {}))


def with_text(declared: Any, text: str) -> Any:
    """The declaration with this text in place of the plain placeholder."""
    if isinstance(declared, dict):
        return {key: with_text(value, text) for key, value in declared.items()}
    if isinstance(declared, list):
        return [with_text(value, text) for value in declared]
    return declared.replace(EVIL, text) if isinstance(declared, str) else declared


PIECES = (
    "${",
    "}",
    "$",
    "{",
    ":",
    "dir",
    "/secrets",
    "bank_db_password",
    "\\",
    "\\u0024",
    "\\x24",
    "'",
    '"',
    ",",
    ".",
    " ",
    "\n",
    "é",
)


@pytest.mark.all
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_nor_does_one_in_any_name_that_is_drawn(kind: str, tmp_path: Path, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*TABLES, *MORE]))
    around = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
    text = data.draw(around) + data.draw(st.sampled_from((EVIL, ""))) + data.draw(around)
    table, more = TABLES.get(name, {"name": "public.t"}), MORE.get(name, {})
    send_all(tmp_path, kind, with_text(table, text), with_text(more, text))


def send_all(tmp_path: Path, kind: str, table: dict[str, Any], more: dict[str, Any]) -> None:
    """Declared, and given to Connect and to a manifest by each way there is: nothing that is sent has a placeholder of others."""
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.content.decode())
        return httpx.Response(200, json={"configs": []})

    source = declare(tmp_path / "sources", kind, table, more)
    client = ConnectClient("http://connect", transport=httpx.MockTransport(answer))
    for connector in declared_connectors([source] if source else []):
        config = dict(connector.config)
        puts: list[Callable[[], object]] = [
            partial(client.put_config, "c", config),
            partial(client.validate, config),
            partial(client.create, "c", config),
            partial(write_manifest, config, sent),
        ]
        for put in puts:
            with pytest.raises((ServiceError, RefusalError), match=r"\$\{dir:") if stands_in(config) else nullcontext():
                put()
    assert not [text for text in sent if "bank" in str(stands_in(json.loads(text).get("config", json.loads(text))))]


def test_a_table_with_such_a_name_is_captured_all_the_same(tmp_path: Path) -> None:
    """PostgreSQL reads `\\x24` in its literal as the dollar."""
    table = {"name": f'public."{EVIL}"', "except_column_list": [EVIL]}
    source = declare(tmp_path / "sources", "postgresql", table, {})
    assert source is not None
    config = declared_connectors([source])[0].config
    assert stands_in(dict(config)) == {}
    assert r"\x24{dir:/secrets:bank_db_password}" in config["database.initial.statements"]


def test_what_is_ours_still_stands_for_a_secret(tmp_path: Path) -> None:
    from cdc_assets.registry.references import foreign_placeholder

    for key, value in (
        ("database.password", "${dir:/secrets:own}"),
        ("value.converter.basic.auth.user.info", "cdc:${dir:/secrets:own}"),
        ("source.cluster.sasl.jaas.config", "${file:/login:sasl.jaas.config}"),
        ("source.cluster.ssl.truststore.location", "${file:/login:ssl.truststore.location}"),
        ("schema.history.internal.producer.security.protocol", "${file:/login:security.protocol}"),
    ):
        assert foreign_placeholder(key, value) == ""
