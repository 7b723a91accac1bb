"""Topics that would lose events, or a schema history, without anybody noticing."""

from __future__ import annotations

from typing import Any

from cdc_assets.capture.preflight.kafka_topics import topic_findings
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic

FOREVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}


def declared(kind: str, table: str) -> Source:
    database: dict[str, Any] = {"kind": kind, "host": "db", "user": "cdc", "password": {"secret": "shop"}}
    database |= {"dbname": "shop"} if kind == "postgresql" else {}
    return Source.model_validate({"source": "shop", "database": database, "tables": [{"name": table}]})


def topic(begin: int = 0, **config: str) -> FakeTopic:
    made = FakeTopic("id", {0: [(b"k", b"v")] * 9}, {0: begin})
    made.config = {**FOREVER, **{name.replace("_", "."): value for name, value in config.items()}}
    return made


def test_a_compacted_topic_on_either_cluster() -> None:
    source = declared("postgresql", "public.orders")
    core = FakeKafka({"shop.public.orders": topic()})
    lake = FakeKafka({"core.shop.public.orders": topic(cleanup_policy="compact,delete")})
    good, bad = topic_findings(source, core, lake)
    assert (good.level, good.subject) == ("ok", "shop.public.orders")
    assert (bad.level, bad.check, bad.subject) == ("fail", "cleanup_policy", "core.shop.public.orders")
    assert bad.mend == (
        "kafka-configs.sh --bootstrap-server fake:9092 --alter --topic core.shop.public.orders --add-config cleanup.policy=delete"
    )


def test_a_topic_that_stamps_its_records_on_either_cluster() -> None:
    source = declared("postgresql", "public.orders")
    core = FakeKafka({"shop.public.orders": topic(message_timestamp_type="CreateTime")})
    lake = FakeKafka({"core.shop.public.orders": topic(message_timestamp_type="LogAppendTime")})
    *others, told = topic_findings(source, core, lake)
    assert {finding.level for finding in others} == {"ok"}
    assert (told.level, told.check, told.subject) == ("warn", "record_time", "core.shop.public.orders")
    assert told.mend.endswith("--topic core.shop.public.orders --add-config message.timestamp.type=CreateTime")


def test_topics_that_are_not_there_yet_are_no_finding() -> None:
    assert [*topic_findings(declared("postgresql", "public.orders"), FakeKafka(), FakeKafka())] == []


def test_a_schema_history_keeps_its_beginning() -> None:
    source, name = declared("mariadb", "shop.orders"), "shop.schema-history"

    def found(kept: FakeTopic) -> Any:
        (finding,) = topic_findings(source, FakeKafka({name: kept}), FakeKafka())
        assert finding.check == "schema_history"
        return finding

    assert found(topic()).level == "ok"
    assert found(topic(retention_ms="9223372036854775807")).level == "ok"  # as Debezium 3.7.0 makes it
    gone = found(topic(begin=3))
    assert (gone.level, "records below offset 3 are gone" in gone.message) == ("fail", True)
    assert "capture: {snapshot: recovery}" in gone.mend
    expiring = found(topic(retention_ms="604800000", cleanup_policy="compact"))
    assert expiring.level == "fail"
    assert expiring.message == "would lose its beginning: cleanup.policy=compact, retention.ms=604800000"
    assert expiring.mend.endswith("--add-config cleanup.policy=delete,retention.ms=-1")
