"""Who owns a connector: what is rendered equals what is declared, by whatever provider and address; the registry says who."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cdc_assets.capture.connectors.config_difference import find_differing_keys
from cdc_assets.capture.connectors.connector_inventory import connector_owners, refuse_write_of
from cdc_assets.capture.connectors.declared_connectors import DeclaredConnector, declared_connectors
from cdc_assets.capture.connectors.setting_overrides import with_public_text
from cdc_assets.defs.source_chain import build_source_defs
from cdc_assets.deploy.rendered_files import render
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import RegistryError, ServiceError
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets_tests.deploy.documents import of_kind
from cdc_assets_tests.deploy.registry import deployment, every_kind, shop

HERE = {
    "SHOP_DB_HOST": "db.shop.svc",
    "CDC_CORE_BOOTSTRAP": "127.0.0.1:1",
    "CDC_LAKE_BOOTSTRAP": "127.0.0.1:2",
    "CDC_CONNECT_SECRETS": "/home/me/.cdc/secrets",
}


def of_git(source: BaseSource, resource: str) -> BaseSource:
    """As a file that declares it would be read."""
    document = source.model_dump(mode="json", exclude_unset=True)
    return type(source).model_validate({**document, "managed_by": "gitops", "mirror": {"resource": resource}})


def deployed(sources: list[BaseSource], resource: str, authentication: str) -> dict[str, dict[str, str]]:
    """Each connector's config as Strimzi puts it, by the name that it gives it."""
    files = render("strimzi", sources, deployment(mirror=resource, authentication=authentication))
    found = {}
    for name, each in of_kind(files, "KafkaConnector").items():
        spec = each["spec"]
        own = {"name": name, "connector.class": spec["class"], "tasks.max": str(spec["tasksMax"])}
        found[name] = {**own, **spec["config"]}
    for maker in of_kind(files, "KafkaMirrorMaker2").values():
        (mirror,) = maker["spec"]["mirrors"]
        clusters = {"source": mirror["source"], "target": maker["spec"]["target"]}
        found[names.SHARED_MIRROR] = {
            "name": names.SHARED_MIRROR,
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "tasks.max": str(mirror["sourceConnector"]["tasksMax"]),
            "topics": mirror["topicsPattern"],
            "topics.exclude": mirror["topicsExcludePattern"],
            **{f"{end}.cluster.alias": about["alias"] for end, about in clusters.items()},
            **{f"{end}.cluster.bootstrap.servers": about["bootstrapServers"] for end, about in clusters.items()},
            **mirror["sourceConnector"]["config"],
        }
    return found


def declared(sources: list[BaseSource]) -> list[DeclaredConnector]:
    """As `difference_to_git` compares them."""
    with settings.only(HERE):
        return [replace(each, config=with_public_text(each.config)) for each in declared_connectors(sources)]


@pytest.mark.slow
@pytest.mark.parametrize("resource", ["mirrormaker2", "connector"])
@pytest.mark.parametrize("authentication", ["none", "tls"])
def test_what_is_rendered_is_what_is_declared_wherever_it_runs(resource: str, authentication: str) -> None:
    sources = [of_git(source, resource) for source in every_kind()]
    there = deployed(sources, resource, authentication)
    for each in declared(sources):
        assert find_differing_keys(each.config, there[each.name], shared=each.name == names.SHARED_MIRROR) == [], each.name


def test_what_git_has_not_brought_differs() -> None:
    (capture, mirror) = declared([of_git(shop(("public.orders", "public.lines")), "mirrormaker2")])
    there = deployed([of_git(shop(("public.orders",)), "mirrormaker2")], "mirrormaker2", "tls")
    assert find_differing_keys(capture.config, there[capture.name], shared=False) == [
        "database.initial.statements",
        "table.include.list",
    ]
    assert find_differing_keys(mirror.config, there[mirror.name], shared=True) == ["topics"]
    for value in ("${secrets:kafka/cdc-secrets:other}", "shop_db_password", ""):
        edited = {**there[capture.name], "database.password": value}
        assert "database.password" in find_differing_keys(capture.config, edited, shared=False)
    assert "source.cluster.alias" in find_differing_keys(
        mirror.config, {**there[mirror.name], "source.cluster.alias": "x"}, shared=True
    )


def test_a_source_of_git_is_known_by_its_names_there_and_restarted_by_the_operator() -> None:
    source = of_git(shop().model_copy(update={"source": "my_shop"}), "mirrormaker2")
    other = of_git(shop(), "mirrormaker2")
    capture = names.kubernetes_name("my_shop-capture")
    assert connector_owners([source, other]) == {
        capture: "my_shop",
        names.SHARED_MIRROR: "my_shop, shop",
        "shop-capture": "shop",
    }
    for name in (capture, names.SHARED_MIRROR, names.temporary(capture)):
        with pytest.raises(
            ServiceError, match="connectors of source my_shop are managed_by: gitops, nothing was written; the way"
        ):
            refuse_write_of([source, other], name, "cdc stop", "the way")
    refuse_write_of([source, shop()], "shop-capture", "cdc stop", "the way")
    sensors = {managed.managed_by: [s.name for s in build_source_defs(managed).sensors or ()] for managed in (other, shop())}
    assert "restarts_shop" in sensors["cdc"]
    assert "restarts_shop" not in sensors["gitops"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("managed_by: git", "managed_by: no such value, got 'git'; accepted: cdc, gitops"),
        ("mirror: {resource: connector}", "declare managed_by: gitops with it"),
        ("managed_by: gitops\nmirror: {heartbeats: 5s}", "one KafkaMirrorMaker2 for all sources has none"),
    ],
)
def test_an_owner_that_cannot_be_is_refused(tmp_path: Path, line: str, told: str) -> None:
    file = tmp_path / "shop.yaml"
    database = "{kind: postgresql, host: h, dbname: d, user: u, password: {secret: s}}"
    file.write_text(f"source: shop\ndatabase: {database}\ntables: [{{name: public.orders}}]\n{line}\n")
    with pytest.raises(RegistryError) as found:
        load_source(file)
    assert told in str(found.value)
