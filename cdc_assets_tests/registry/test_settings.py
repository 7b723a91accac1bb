"""Addresses and secrets: the environment wins, then the running stack; what is missing says how to set it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from cdc_assets.deploy.otlp_traces import traces_endpoint
from cdc_assets.registry import settings
from cdc_assets.registry.durable_file import read_json, replace_json
from cdc_assets.registry.errors import CdcAssetsError, MissingAddressError, MissingSecretError, SettingError
from cdc_assets.registry.references import EnvRef, SecretRef
from cdc_assets.stack.declared_needs import places_to_remember
from cdc_assets.stack.home import Home


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    monkeypatch.delenv("CDC_CORE_BOOTSTRAP", raising=False)
    return tmp_path


def test_the_environment_wins_over_the_stack(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace_json(home / "stack.json", {"environment": {"CDC_CORE_BOOTSTRAP": "stack:1"}})
    assert settings.address("CDC_CORE_BOOTSTRAP") == "stack:1"
    monkeypatch.setenv("CDC_CORE_BOOTSTRAP", "mine:2")
    assert settings.address("CDC_CORE_BOOTSTRAP") == "mine:2"


def test_the_embedded_s3_brings_its_own_credentials(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "embedded"}
    replace_json(home / "stack.json", {"environment": environment})
    for name in environment:
        monkeypatch.setenv(name, "the user's")  # so that it is put back afterwards
    settings.export_stack_environment()
    assert os.environ["AWS_ACCESS_KEY_ID"] == "the user's"
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    settings.export_stack_environment()
    assert os.environ["AWS_ACCESS_KEY_ID"] == "embedded"


def test_a_missing_address_says_what_it_is_and_what_to_do() -> None:
    with pytest.raises(MissingAddressError, match=r"CDC_CORE_BOOTSTRAP .* core Kafka cluster .* \./cdc up"):
        settings.address("CDC_CORE_BOOTSTRAP")


def test_references_resolve_late_and_have_defaults() -> None:
    assert settings.resolve("literal") == "literal"
    assert settings.resolve(5432) == "5432"
    assert settings.resolve(EnvRef(env="CDC_ABSENT", default="x")) == "x"
    with pytest.raises(MissingAddressError, match="CDC_ABSENT"):
        settings.resolve(EnvRef(env="CDC_ABSENT"))


def test_the_embedded_stack_is_offered_for_what_it_sets() -> None:
    stack = re.escape("or start the embedded stack: ./cdc up")
    with settings.only({}):
        with pytest.raises(MissingAddressError, match=rf"^CDC_POSTGRES_HOST is not set.* Set CDC_POSTGRES_HOST, {stack}$"):
            settings.resolve(EnvRef(env="CDC_POSTGRES_HOST"))
        with pytest.raises(MissingAddressError, match=r"^SHOP_DB_HOST is not set: where is the value .*\? Set SHOP_DB_HOST$"):
            settings.resolve(EnvRef(env="SHOP_DB_HOST"))
        # A core cluster that a source names is never the stack's.
        with pytest.raises(MissingAddressError, match=r" Set CDC_CORE_ERP_BOOTSTRAP$"):
            settings.address("CDC_CORE_ERP_BOOTSTRAP")


def test_a_secret_comes_from_its_variable_or_its_file(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = SecretRef(secret="shop-db.password")
    with pytest.raises(MissingSecretError, match=r"CDC_SECRET_SHOP_DB_PASSWORD, the file .*secrets/shop-db\.password"):
        settings.secret(reference)
    (home / "secrets").mkdir()
    (home / "secrets" / "shop-db.password").write_text("from-file\n")
    assert settings.secret(reference) == "from-file"
    monkeypatch.setenv("CDC_SECRET_SHOP_DB_PASSWORD", "from-variable")
    assert settings.secret(reference) == "from-variable"


def test_a_key_of_the_stack_goes_to_no_other_address(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "token").write_text("the stack's\n")
    (home / "mine").write_text("mine")
    replace_json(home / "stack.json", {"environment": {}, "keys": {"sc://localhost:1": str(home / "token")}})
    assert settings.key("sc://localhost:1", "CDC_SPARK_TOKEN_FILE") == "the stack's"
    assert settings.key("sc://spark.example:1", "CDC_SPARK_TOKEN_FILE") == ""
    monkeypatch.setenv("CDC_SPARK_TOKEN_FILE", str(home / "mine"))
    assert settings.key("sc://spark.example:1", "CDC_SPARK_TOKEN_FILE") == "mine"
    monkeypatch.setenv("CDC_SPARK_TOKEN_FILE", str(home / "gone"))
    with pytest.raises(MissingSecretError, match=r"spark\.example.*gone \(No such file"):
        settings.key("sc://spark.example:1", "CDC_SPARK_TOKEN_FILE")


def test_the_stacks_login_to_kafka_goes_to_no_other_cluster(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = str(home / "private" / "kafka_login")
    environment = {"CDC_CORE_BOOTSTRAP": "127.0.0.1:1", "CDC_CORE_LOGIN": own}
    replace_json(home / "stack.json", {"environment": environment, "keys": {"127.0.0.1:1": own}})
    for name in ("CDC_CORE_BOOTSTRAP", "CDC_CORE_LOGIN", "CDC_LAKE_BOOTSTRAP", "CDC_LAKE_LOGIN"):
        monkeypatch.delenv(name, raising=False)
    assert settings.login("core") == settings.login("core", "127.0.0.1:1") == own
    assert settings.login("lake") == settings.login("core", "core.example:9093") == ""
    # A shell that has the stack's variables, and then names another cluster.
    monkeypatch.setenv("CDC_CORE_LOGIN", own)
    monkeypatch.setenv("CDC_CORE_BOOTSTRAP", "core.example:9093")
    assert settings.login("core") == ""
    monkeypatch.setenv("CDC_CORE_LOGIN", "/etc/cdc/core.properties")
    assert settings.login("core") == "/etc/cdc/core.properties"


def test_folders_of_small_state_are_private_however_deep(home: Path) -> None:
    before = os.umask(0o022)
    try:
        replace_json(home / "cache" / "manifests" / "store" / "x.json", {})
    finally:
        os.umask(before)
    made = [home / "cache", *(home / "cache").rglob("*")]
    assert [path.stat().st_mode & 0o077 for path in made] == [0] * 4


def test_state_of_another_format_is_refused(home: Path) -> None:
    file = home / "source-state" / "shop.json"
    assert read_json(file) is None
    replace_json(file, {"running": None})
    assert read_json(file) == {"running": None}
    for text, number in (('{"cdc_assets": 2, "state": {}}', "2"), ("{}", "none"), ("[]", "none")):
        file.write_text(text)
        with pytest.raises(CdcAssetsError, match=f"{file} is state of format {number}, this cdc reads 1: read it with the cdc"):
            read_json(file)


@pytest.mark.parametrize(
    "root", ["gcs://bucket/lake", "s3://bucket/lake", "abfss://c@a.dfs.core.windows.net/x", "hdfs://n/x", "s3a://"]
)
def test_a_lake_that_would_half_work_is_refused(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_LAKE", root)
    with pytest.raises(SettingError, match=r"CDC_LAKE: .*object-store-lake\.md"):
        settings.lake()


def test_a_lake_in_a_store_is_reached_with_the_stacks_keys(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:1", "AWS_ACCESS_KEY_ID": "embedded", "CDC_DAGSTER_URL": "http://d"}
    environment["STORAGE_EMULATOR_HOST"] = "http://127.0.0.1:2"
    replace_json(home / "stack.json", {"environment": environment})
    for name in environment:
        monkeypatch.setenv(name, "x")  # so that it is put back afterwards
        monkeypatch.delenv(name)
    monkeypatch.setenv("CDC_LAKE", str(home))
    assert settings.lake() == str(home)
    assert "AWS_ACCESS_KEY_ID" not in os.environ
    monkeypatch.setenv("CDC_LAKE", "s3a://bucket/lake/")
    assert settings.lake() == "s3a://bucket/lake"
    assert os.environ["AWS_ACCESS_KEY_ID"] == "embedded"
    monkeypatch.setenv("CDC_LAKE", "gs://bucket/lake/")
    assert settings.lake() == "gs://bucket/lake"
    assert os.environ["STORAGE_EMULATOR_HOST"] == "http://127.0.0.1:2"
    # An address of the stack may change: only the stores' are pinned.
    assert "CDC_DAGSTER_URL" not in os.environ


def test_the_stack_remembers_where_its_alerts_go_until_none_are_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setenv("CDC_ALERTS", "alerts.yaml")
    told = places_to_remember(Home(home))
    assert told["CDC_ALERTS"] == str(home / "alerts.yaml")
    replace_json(home / "stack.json", {"environment": told})
    monkeypatch.delenv("CDC_ALERTS")
    assert places_to_remember(Home(home)) == told
    assert settings.lookup("CDC_ALERTS") == str(home / "alerts.yaml")
    monkeypatch.setenv("CDC_ALERTS", "")
    assert "CDC_ALERTS" not in places_to_remember(Home(home))


def test_the_stack_remembers_a_collector_of_traces_but_not_its_key(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cr3t")
    told = places_to_remember(Home(home))
    assert told["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
    assert "s3cr3t" not in str(told)
    replace_json(home / "stack.json", {"environment": told})
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT")
    assert traces_endpoint() == "http://collector:4318/v1/traces"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    assert places_to_remember(Home(home)).keys() == told.keys() - {"OTEL_EXPORTER_OTLP_ENDPOINT"}
