"""The rights that the mirror needs are asked of the broker, with the login that `cdc apply` puts into the mirror."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import NewTopic

from cdc_assets.capture.preflight import kafka_topics
from cdc_assets.capture.preflight.inspection import Finding
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.deploy.secured import Secured, password, secured

pytestmark = pytest.mark.service
TOPIC, COPY, SYNCS = "shop.public.orders", "core.shop.public.orders", "mm2-offset-syncs.core.internal"
READER, MIRROR = "reader", "mirror"
_READ = ["Read", "Describe", "DescribeConfigs"]
_ALL = [*_READ, "Write", "Create", "Alter", "AlterConfigs"]
SOURCE = Source.model_validate(
    {
        "source": "shop",
        "database": {"kind": "postgresql", "host": "db", "dbname": "shop", "user": "cdc", "password": {"secret": "shop"}},
        "tables": [{"name": "public.orders"}],
    }
)


def acl(topic: str, *operations: str) -> dict[str, object]:
    return {"resource": {"type": "topic", "name": topic, "patternType": "literal"}, "operations": list(operations)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One broker is both clusters; the topic that is captured is there, no copy is."""
    with secured(tmp_path_factory.mktemp("rights"), (READER, MIRROR), {}) as found:
        found.admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        # As a page once said: what is read may be read.
        found.grant(READER, [acl(topic, *_READ) for topic in (TOPIC, COPY, SYNCS)])
        found.grant(MIRROR, [acl(TOPIC, *_READ), acl(COPY, *_ALL), acl(SYNCS, *_READ, "Create", "Write")])
        yield found


def found(place: Secured, user: str, monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """As `cdc preflight` asks, by password."""
    login = place.logins.scram(user, password(user))
    cluster = KafkaCluster(place.broker.by_password, login=login)
    monkeypatch.setattr(Platform, "core_kafka", lambda *_: cluster)
    monkeypatch.setattr(Platform, "lake_kafka", lambda *_: cluster)
    for name in ("CORE", "LAKE"):
        monkeypatch.setenv(f"CDC_{name}_CONNECT", "http://127.0.0.1:9")
        monkeypatch.setenv(f"CDC_{name}_CONNECT_TOPICS", "none")
    return [each for each in kafka_topics.platform_topic_findings(Chain(Platform(), SOURCE)) if each.check == "mirror_rights"]


def test_a_login_that_may_only_read_is_red_before_the_mirror_is_made(place: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    core, copies, syncs = found(place, READER, monkeypatch)
    assert core.level == "ok"
    assert (copies.level, copies.subject) == ("fail", COPY)
    assert "Write, DescribeConfigs, Create, Alter, AlterConfigs are not granted" in copies.message
    assert (syncs.level, syncs.subject) == ("fail", SYNCS)
    assert syncs.mend is not None
    assert "--allow-principal 'User:reader'" in syncs.mend
    assert "--operation Write" in syncs.mend
    assert f"--topic {SYNCS}" in syncs.mend
    assert place.admin.list_topics(timeout=20).topics.keys() & {COPY, SYNCS} == set()  # nothing was made by asking


def test_a_login_with_the_mirror_s_rights_is_green(place: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {each.level for each in found(place, MIRROR, monkeypatch)} == {"ok"}
    assert place.admin.list_topics(timeout=20).topics.keys() & {COPY, SYNCS} == set()


def test_a_copy_that_is_there_and_may_not_be_written(place: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    place.admin.create_topics([NewTopic(COPY, 1, 1)])[COPY].result(30)
    _, copies, _ = found(place, READER, monkeypatch)
    assert copies.message.split(" are not")[0].endswith("Write, Alter, AlterConfigs")
    mended = KafkaCluster(place.broker.by_password, login=place.logins.scram(MIRROR, password(MIRROR)))
    assert mended.rights_lacking({COPY: _ALL}) == {}
