"""Several core clusters: which variables name one, what its mirror and connector are, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from cdc_assets.capture.adoption.setting_differences import CoreSide
from cdc_assets.capture.connectors.declared_connectors import declared_connectors
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import MissingAddressError
from cdc_assets.registry.name_conflicts import find_collisions
from cdc_assets.registry.source_declaration import Source, TopicSource
from cdc_assets.stack.component_plan import external_addresses
from cdc_assets.stack.home import Home

PLACES = {
    "CDC_CORE_BOOTSTRAP": "core:1",
    "CDC_CORE_ERP_BOOTSTRAP": "erp:1",
    "CDC_CORE_ERP_CONNECT": "http://erp",
    "CDC_LAKE_BOOTSTRAP": "lake:1",
    "CDC_CONNECT_SECRETS": "/s",
}


def source(name: str, **more: Any) -> Source:
    database = {"kind": "mariadb", "host": f"db-{name}", "user": "u", "password": {"secret": "p"}}
    return Source.model_validate({"source": name, "database": database, "tables": [{"name": "s.t"}], **more})


def test_a_cluster_has_variables_of_its_own() -> None:
    assert settings.variable("core", "LOGIN") == "CDC_CORE_LOGIN"
    assert settings.variable("lake", "BOOTSTRAP") == "CDC_LAKE_BOOTSTRAP"
    assert settings.variable("erp", "CONNECT_LOGIN_FILE") == "CDC_CORE_ERP_CONNECT_LOGIN_FILE"
    with settings.only(PLACES):
        assert settings.core_clusters("BOOTSTRAP") == ["core", "erp"]
        assert settings.core_clusters("CONNECT") == ["erp"]
        with pytest.raises(MissingAddressError, match="of the cluster till that a source names"):
            settings.address(settings.variable("till", "BOOTSTRAP"))
    with settings.only({}):
        assert settings.core_clusters("CONNECT") == ["core"]


def test_its_connectors_go_there_and_its_copies_have_its_name() -> None:
    erp, till = source("erp_orders", cluster="erp"), source("till", mirror={"alias": "shops"}, cluster="erp")
    with settings.only(PLACES):
        capture, mirror = declared_connectors([erp])
        assert (capture.cluster, mirror.cluster) == ("erp", "lake")
        assert capture.config["schema.history.internal.kafka.bootstrap.servers"] == "erp:1"
        assert mirror.config["source.cluster.bootstrap.servers"] == "erp:1"
        assert mirror.config["source.cluster.alias"] == "erp"
    assert names.lake_topic(erp, erp.tables[0]) == "erp.erp_orders.s.t"
    assert names.lake_topic(till, till.tables[0]) == "shops.till.s.t"
    assert names.lake_topic(source("plain"), source("plain").tables[0]) == "core.plain.s.t"


def test_two_clusters_may_have_a_topic_of_one_name() -> None:
    capture = {"topic_prefix": "same"}
    one, other = source("one", capture=capture), source("other", capture=capture, cluster="erp")
    assert [*find_collisions([one, other])] == []
    aliased = source("other", capture=capture, cluster="erp", mirror={"alias": "core"})
    assert "mirrored topic" in next(find_collisions([one, aliased])).message
    assert "topic" in next(find_collisions([one, source("other", capture=capture)])).message


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"cluster": "lake"}, "a connector writes to a core cluster"),
        ({"cluster": "Erp"}, "cluster"),
        ({"cluster": "erp", "managed_by": "gitops", "mirror": {"resource": "connector"}}, "has one core cluster"),
    ],
)
def test_what_cannot_be_there_is_refused(more: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        source("s", **more)


def test_topics_of_others_are_on_any_of_them_or_on_the_lake() -> None:
    table = {"name": "t", "topic": "t", "envelope": "json", "keys": ["id"], "columns": {"id": "text"}}
    at = {
        cluster: TopicSource.model_validate({"source": "s", "kind": "topics", "cluster": cluster, "tables": [table]})
        for cluster in ("core", "erp", "lake")
    }
    copies = {cluster: names.lake_topic(found, found.tables[0]) for cluster, found in at.items()}
    assert copies == {"core": "core.t", "erp": "erp.t", "lake": "t"}


def test_a_mirror_is_of_a_cluster_by_an_address_that_both_name() -> None:
    config = {"source.cluster.bootstrap.servers": "a:1, b:1"}
    assert CoreSide("erp", "b:1,c:1", is_one_of_many=True).is_read_by(config)
    assert not CoreSide("erp", "c:1", is_one_of_many=True).is_read_by(config)
    assert CoreSide("core", "c:1", is_one_of_many=False).is_read_by(config)


def test_the_stack_remembers_their_addresses(tmp_path: Path) -> None:
    given = {**PLACES, "CDC_CORE_ERP_LOGIN": "/l", "CDC_CORE_TESTS": "no"}
    assert external_addresses(Home(tmp_path), given).keys() == {*PLACES, "CDC_CORE_ERP_LOGIN"}
