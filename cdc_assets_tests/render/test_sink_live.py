"""Aiven's real S3 sink on a real worker: it accepts our config, and every record of a topic is in the bucket, byte for byte.

Its folder is the unpacked release of https://github.com/Aiven-Open/cloud-storage-connectors-for-apache-kafka/releases, or classes
compiled from its sources with what they need (docs/adr/0039).
"""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from typing_extensions import override

from cdc_assets import names
from cdc_assets.connectors.sink import sink_config
from cdc_assets.registry.models import Source
from cdc_assets.resources.connect import ConnectClient
from cdc_assets.resources.object_store import open_store
from cdc_assets.stack.components.connect import ConnectWorker
from cdc_assets.stack.components.kafka import KafkaBroker
from cdc_assets.stack.home import Home
from cdc_assets.stack.ports import assign
from cdc_assets.stack.site import Site
from cdc_assets_tests.backup.endpoints import Endpoint, running
from cdc_assets_tests.programs.wanted import ProgramMissingError, unpacked
from cdc_assets_tests.render.registry import shop
from cdc_assets_tests.support.lake.jvm import locked_jars
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_source import Part

pytestmark = pytest.mark.all


class WorkerWithSink(ConnectWorker):
    """A worker that has the plugin, and no other."""

    @override
    def prepare(self) -> None:
        super().prepare()
        folder = unpacked() / "s3-sink"
        if not any(folder.rglob("*.jar")):
            # No Maven repository has it.
            raise ProgramMissingError(f"without Aiven's S3 sink: unpack its release into {folder}")
        (self.run / "plugins" / "sink").symlink_to(folder)


@pytest.fixture
def endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    with running("s3", tmp_path / "s3") as endpoint:
        for name, value in endpoint.environment.items():
            monkeypatch.setenv(name, value)
        yield endpoint


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[tuple[ConnectClient, Site]]:
    locked_jars("kafka")
    home = Home(tmp_path / "home").create()
    site = Site(home, assign(("core-kafka", "core-kafka-controller", "core-connect"), {}), plugins=())
    with ExitStack() as stack:
        for component in (KafkaBroker(site, "core", 1), WorkerWithSink(site, "core")):
            part = Part(component)
            stack.callback(part.kill)
            part.start()
        yield ConnectClient(f"http://127.0.0.1:{site.ports['core-connect']}"), site


def test_every_record_is_in_the_bucket(
    worker: tuple[ConnectClient, Site], endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, site = worker
    for secret in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        file = site.home.secrets / secret.lower()
        file.write_text(os.environ[secret])
        file.chmod(0o600)
    monkeypatch.setenv("CDC_CONNECT_SECRETS", str(site.home.secrets))
    source = shop(
        sink={
            "kind": "s3",
            "bucket": endpoint.config.bucket,
            "prefix": "raw/cdc",
            "endpoint": endpoint.config.endpoint,
            "access_key_id": {"secret": "aws_access_key_id"},
            "secret_access_key": {"secret": "aws_secret_access_key"},
        }
    )
    assert isinstance(source, Source)
    assert source.sink is not None
    topics = sorted(names.lake_topic(source, table) for table in source.tables)
    sent = send(site.bootstrap("core"), topics)
    config = sink_config(source, source.sink)
    assert connect.validate(config) == {}
    known = connect.definitions(config["connector.class"])
    own = {key for key in config if key.startswith(("aws.", "file.", "format."))}
    assert own <= set(known)
    wrong = connect.validate({**config, "file.compression.type": "rar", "format.output.fields": "all"})
    assert {"file.compression.type", "format.output.fields"} <= set(wrong)
    connect.put_config(config["name"], config)
    connect.wait_running(config["name"])
    store = open_store(endpoint.config.model_copy(update={"prefix": "raw"}))
    until(lambda: sum(len(lines) for lines in written(store).values()) == len(sent), 90)
    found = [
        (name.split("/")[2], base64.b64decode(line["key"]), base64.b64decode(line["value"]), line["offset"])
        for name, lines in written(store).items()
        for line in lines
    ]
    assert sorted(found) == sorted(sent)
    status = connect.status(config["name"])
    assert status is not None
    assert status.running


def send(bootstrap: str, topics: list[str]) -> list[tuple[str, bytes, bytes, int]]:
    """Records as a mirrored topic has them, to each topic: `(topic, key, value, offset)`."""
    admin, producer = AdminClient({"bootstrap.servers": bootstrap}), Producer({"bootstrap.servers": bootstrap})
    for done in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        done.result(30)
    sent = []
    for topic in topics:
        for number in range(50):
            key, value = json.dumps({"id": number}).encode(), json.dumps({"op": "c", "after": {"v": "ä€\n" * number}}).encode()
            producer.produce(topic, value, key)
            sent.append((topic, key, value, number))
    assert producer.flush(30) == 0
    return sent


def written(store: Any) -> dict[str, list[dict[str, Any]]]:
    """The lines of each object under the sink's prefix."""
    objects = [item.key for item in store.list("cdc/shop/")]
    return {key: [json.loads(line) for line in gzip.decompress(store.get(key)).splitlines()] for key in objects}
