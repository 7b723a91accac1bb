"""The whole of `cdc adopt` without a service: answers of Connect and Kafka are written down, what is rendered is ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.capture.adoption.adopted_source import Adoption, look_at_connector, write
from cdc_assets.capture.adoption.postgresql_adoption import PostgresAdoption
from cdc_assets.capture.adoption.running_connector import FoundAtSource
from cdc_assets.capture.connectors.config_difference import difference_of
from cdc_assets.capture.connectors.declared_connectors import capture_config, declared_connectors
from cdc_assets.capture.connectors.mirrormaker2 import mirror_config
from cdc_assets.capture.connectors.setting_overrides import settle
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.field_types import TableId
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import CapturedSource
from cdc_assets_tests.capture.adoption.scripted_stack import MIRROR, Cluster, Stack

CAPTURE = {
    "name": "erp-connector",
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "database.hostname": "db.example.com",
    "database.port": "5432",
    "database.user": "debezium",
    "database.password": "hunter2",
    "database.dbname": "erp",
    "plugin.name": "pgoutput",
    "topic.prefix": "erp-prod",
    "table.include.list": "public.orders",
    "value.converter.schemas.enable": "false",
}
DEFAULTS = {
    "slot.name": "debezium",
    "publication.name": "dbz_publication",
    "decimal.handling.mode": "precise",
    "time.precision.mode": "adaptive",
    "binary.handling.mode": "bytes",
    "interval.handling.mode": "numeric",
    "hstore.handling.mode": "json",
    "include.unknown.datatypes": "false",
    "snapshot.mode": "initial",
    "unavailable.value.placeholder": "__debezium_unavailable_value",
    "tombstones.on.delete": "true",
    "skipped.operations": "t",
    "heartbeat.interval.ms": "0",
    "plugin.name": "decoderbufs",
    "exactly.once.support": "requested",
    "tasks.max": "1",
}


@pytest.fixture(autouse=True)
def _places(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "CDC_CORE_BOOTSTRAP": "core:9092",
        "CDC_LAKE_BOOTSTRAP": "lake:9092",
        "CDC_CONNECT_SECRETS": "/s",
    }.items():
        monkeypatch.setenv(name, value)
    found = FoundAtSource([TableId("public", "orders")], facts={"slot": {"name": "debezium"}})
    monkeypatch.setattr(PostgresAdoption, "look", lambda *_: found)


def adopt(
    folder: Path,
    capture: Mapping[str, str] = CAPTURE,
    mirror: Mapping[str, str] | None = MIRROR,
    core: Cluster | None = None,
    lake: Cluster | None = None,
    **how: Any,
) -> Adoption:
    core, lake = core or Cluster("erp-prod.public.orders"), lake or Cluster("onprem.erp-prod.public.orders")
    return look_at_connector(Stack(capture, mirror, core, lake, defaults=DEFAULTS), "erp-connector", folder, source="erp", **how)  # type: ignore[arg-type]


def written(found: Adoption) -> CapturedSource:
    write(found)
    source = load_source(found.file).captured
    assert source is not None
    return source


def test_what_is_written_renders_the_connector_and_the_mirror_to_the_letter(tmp_path: Path) -> None:
    found = adopt(tmp_path)
    assert not list(tmp_path.iterdir())
    source = written(found)
    assert settle(capture_config(source), CAPTURE) == CAPTURE
    assert mirror_config(source) == MIRROR
    text = found.file.read_text()
    assert "hunter2" not in text + str(found.to_json()) + repr(found)
    assert (source.capture.slot, source.capture.publication) == ("debezium", "dbz_publication")
    assert source.capture.values.model_dump(exclude_defaults=True) == {
        "decimal": "precise",
        "temporal": "adaptive",
        "interval": "numeric",
        "unknown": "omit",
    }
    assert source.capture.unchanged_text == "__debezium_unavailable_value"
    assert source.database.password.secret == "erp_password"  # type: ignore[union-attr]
    assert "signals" not in text
    assert [table.name for table in source.tables] == ["public.orders"]


def test_only_what_differs_in_effect_is_told(tmp_path: Path) -> None:
    """`tombstones.on.delete` is the default as it is ours; forms of values are declared; a password lies in clear."""
    told = {each.setting: each for each in adopt(tmp_path).differences}
    assert not told.keys() & {
        "message.prefix.include.list",
        "tombstones.on.delete",
        "decimal.handling.mode",
        "exactly.once.support",
        "table.include.list",
    }
    assert (told["skipped.operations"].theirs, told["skipped.operations"].ours) == (None, "none")
    assert told["database.password"].theirs == "[hidden]"
    assert {each.weight for each in told.values()} == {"weaker", "none"}


def test_a_connector_like_ours_is_taken_over_without_a_difference(tmp_path: Path) -> None:
    """As an earlier registry of ours has made it, under another name of its source."""
    first = written(adopt(tmp_path, mirror=None, ours=True))
    (tmp_path / "erp.yaml").unlink()
    ours = settle(capture_config(first), None)
    again = adopt(tmp_path, ours, mirror_config(first))
    assert (again.differences, again.mirror_differences) == ([], [])
    assert "settings" not in str(again.document)
    assert settle(capture_config(written(again)), ours) == ours


def test_what_would_make_the_lake_wrong_is_not_kept(tmp_path: Path) -> None:
    capture = {key: value for key, value in CAPTURE.items() if key != "plugin.name"}
    with pytest.raises(RefusalError, match=r"cannot stay as it is.*plugin.name is None, ours pgoutput"):
        write(adopt(tmp_path, capture))
    assert written(adopt(tmp_path, capture, ours=True)).capture.settings == {}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"topics": "other"}, ""),
        ({"topics": "erp-prod.public.orders", "source.cluster.alias": "on.prem"}, "mirror.alias"),
        ({"replication.policy.separator": "_"}, "only DefaultReplicationPolicy, IdentityReplicationPolicy with a dot are known"),
    ],
)
def test_a_mirror_is_found_by_what_it_carries(tmp_path: Path, changed: dict[str, str], told: str) -> None:
    if not told:
        assert adopt(tmp_path, mirror={**MIRROR, **changed}).mirror is None
        return
    with pytest.raises(RefusalError) as caught:
        adopt(tmp_path, mirror={**MIRROR, **changed})
    assert told in str(caught.value)


def test_strimzi_s_mirror_is_taken_over_and_can_stay_git_s(tmp_path: Path) -> None:
    """A KafkaMirrorMaker2 names its connector after its clusters; as its REST service tells it, without Strimzi."""
    mirror = {**MIRROR, "name": "onprem->data-lake.MirrorSourceConnector", "topics": r"^(?:erp-prod\..*)$"}
    capture = {**CAPTURE, "database.password": "${secrets:kafka/cdc-secrets:erp_password}"}
    found = adopt(tmp_path, capture, mirror)
    assert mirror_config(written(found)) == mirror
    text = found.file.read_text().replace("mirror:\n", "managed_by: gitops\nmirror:\n  resource: connector\n")
    found.file.write_text(text)
    stack = Stack(capture, mirror, Cluster(), Cluster(), defaults=DEFAULTS)
    declared = declared_connectors([load_source(found.file)])
    asked = [(stack.core_connect("") if each.cluster == "core" else stack.lake_connect(), each) for each in declared]
    differences = [difference_of(worker, each.source, each.config) for worker, each in asked]  # type: ignore[arg-type]
    assert [(each.name, each.summary) for each in differences] == [(capture["name"], "same"), (mirror["name"], "same")]


def test_a_second_mirror_never_fills_the_same_copies(tmp_path: Path) -> None:
    with pytest.raises(RefusalError, match=r"core.erp-prod.public.orders at kafka:9092: filled by no connector"):
        adopt(tmp_path, mirror=None, lake=Cluster("core.erp-prod.public.orders"))
    write(adopt(tmp_path))
    other = {**CAPTURE, "name": "erp-connector", "slot.name": "other", "publication.name": "other"}
    with pytest.raises(RefusalError, match="declared already, by source erp"):
        look_at_connector(Stack(other, MIRROR, Cluster(), Cluster(), defaults=DEFAULTS), "erp-connector", tmp_path, source="two")  # type: ignore[arg-type]


def test_topics_keep_what_they_keep_and_lacks_are_told(tmp_path: Path) -> None:
    found = adopt(tmp_path, core=Cluster("erp-prod.public.orders", cut=7, policy="compact", retention="-1"))
    assert found.document["topics"] == {"retention": "36500d"}
    notes = " ".join(found.notes)
    assert "has lost its oldest records" in notes
    assert "cdc onboard erp 'public.orders' --again --route temporary" in notes
    assert "is compacted" in notes
    assert "there is no topic erp-prod.public.orders yet" in " ".join(adopt(tmp_path, core=Cluster()).notes)


def test_a_source_of_that_name_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "erp.yaml").write_text("source: [", encoding="utf-8")
    with pytest.raises(Exception, match="not valid YAML"):
        adopt(tmp_path)
