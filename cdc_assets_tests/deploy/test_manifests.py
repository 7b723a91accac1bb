"""What is rendered: valid by Strimzi's own schemas, the same each time, the connectors' own configs, and nothing secret."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from cdc_assets.capture.connectors.debezium_settings import retention_ms
from cdc_assets.capture.connectors.declared_connectors import declared_connectors
from cdc_assets.capture.connectors.setting_overrides import with_public_text
from cdc_assets.deploy.manifest import STAND_IN, load_deployment
from cdc_assets.deploy.rendered_files import TARGETS, render
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.names import kubernetes_name
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.deploy.documents import of_kind, parsed
from cdc_assets_tests.deploy.registry import CANARY, deployment, every_kind, shop, sources
from cdc_assets_tests.deploy.strimzi_crds import generate_schemas

# What Strimzi 1.2.0 says cannot be set in a connector's config (AbstractConnectorSpec).
FORBIDDEN = {"name", "connector.class", "tasks.max", "connector.plugin.version"}


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return generate_schemas(tmp_path_factory.mktemp("crds"))


@pytest.mark.parametrize("mirror", ["mirrormaker2", "connector"])
@pytest.mark.parametrize("authentication", ["none", "tls"])
def test_strimzis_own_schemas_accept_every_manifest(schemas: Any, mirror: str, authentication: str) -> None:
    manifests = parsed(render("strimzi", every_kind(), deployment(mirror=mirror, authentication=authentication)))
    for manifest in manifests:
        jsonschema.validate(manifest, schemas[manifest["kind"]], jsonschema.Draft202012Validator)
    kinds = {manifest["kind"] for manifest in manifests}
    assert kinds >= {"KafkaConnector", "KafkaTopic"}
    assert ("KafkaMirrorMaker2" in kinds) == (mirror == "mirrormaker2")
    assert ("KafkaUser" in kinds) == (authentication == "tls")
    assert len({(m["kind"], m["metadata"]["name"]) for m in manifests}) == len(manifests)


def test_the_schemas_refuse_what_strimzi_does_not_know(schemas: Any) -> None:
    (mirror,) = of_kind(render("strimzi", sources(), deployment()), "KafkaMirrorMaker2").values()
    for broken in ({"connectCluster": "lake"}, {"replicas": "one"}, {"mirrors": [{"topicsPattern": ".*"}]}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**mirror, "spec": {**mirror["spec"], **broken}}, schemas["KafkaMirrorMaker2"])


def test_connectors_carry_the_config_that_cdc_apply_uses() -> None:
    given, platform = sources(), deployment(mirror="connector")
    with settings.only(platform.variables(secrets_folder="/x")):
        wanted = {each.name: with_public_text(each.config) for each in declared_connectors(given)}
    rendered = of_kind(render("strimzi", given, platform), "KafkaConnector")
    assert set(rendered) == set(wanted) == {"shop-capture", "shop-mirror", "web-mirror"}
    for name, manifest in rendered.items():
        spec = manifest["spec"]
        assert not FORBIDDEN & set(spec["config"])
        login = re.compile(r"(source\.cluster|target\.cluster)\.(ssl\.|security\.)")
        whole = {
            **{k: v for k, v in spec["config"].items() if not login.match(k)},
            "name": name,
            "connector.class": spec["class"],
            "tasks.max": str(spec["tasksMax"]),
        }
        assert whole == {k: re.sub(r"\$\{dir:/x:(.*)\}", r"${secrets:kafka/cdc-secrets:\1}", v) for k, v in wanted[name].items()}
    posted = {json.loads(text)["name"]: json.loads(text)["config"] for text in render("connect", given, platform).values()}
    folder = platform.secrets_folder
    assert posted == {name: {k: v.replace("/x:", f"{folder}:") for k, v in each.items()} for name, each in wanted.items()}


def test_the_mirrors_pattern_matches_its_topics_and_no_other() -> None:
    given = sources()
    (mirror,) = of_kind(render("strimzi", given, deployment()), "KafkaMirrorMaker2").values()
    (one,) = mirror["spec"]["mirrors"]
    topics = [names.topic(source, table) for source in given for table in source.tables]
    assert "web.clicks-1" in topics
    for topic in topics:
        assert re.search(one["topicsPattern"], topic)
        for other in (topic.replace(".", "x", 1), f"{topic}s", f"x{topic}"):
            assert not re.search(one["topicsPattern"], other)
    assert "," not in one["topicsPattern"]
    assert one["sourceConnector"]["config"]["exactly.once.support"] == "required"
    assert mirror["spec"]["target"]["config"]["exactly.once.source.support"] == "enabled"


def test_one_mirrormaker_cannot_have_two_settings() -> None:
    odd = shop(("public.a",), topics={"replication_factor": 3}).model_copy(update={"source": "odd"})
    with pytest.raises(RefusalError, match=r"shop and odd are mirrored differently \(offset-syncs.*set `mirror: connector`"):
        render("strimzi", [shop(), odd], deployment())
    assert render("strimzi", [shop(), odd], deployment(mirror="connector"))


def test_no_user_may_more_than_it_needs() -> None:
    users = of_kind(render("strimzi", sources(), deployment()), "KafkaUser")
    core = {(acl["resource"]["name"], op) for acl in users["cdc-mirror-core"]["spec"]["authorization"]["acls"]
            for op in acl["operations"]}  # fmt: skip
    assert core == {(t, op) for t in ("shop.public.orders", "shop.odd.we.ird_Name_x_", "web.clicks-1")
                    for op in ("Read", "Describe", "DescribeConfigs")}  # fmt: skip
    for user in users.values():
        for acl in user["spec"]["authorization"]["acls"]:
            assert acl["resource"]["type"] != "cluster"
            assert "All" not in acl["operations"]
            assert acl["resource"]["name"] != "*"
            assert acl["resource"]["type"] != "topic" or acl["resource"]["patternType"] == "literal"
    assert not any("Write" in acl["operations"] for name in ("cdc-assets-core", "cdc-assets-lake")
                   for acl in users[name]["spec"]["authorization"]["acls"])  # fmt: skip


@pytest.mark.parametrize("declared", [{}, {"alias": "dc1"}])
def test_a_mirror_may_write_the_topics_of_its_own_that_mirrormaker_makes(declared: dict[str, str]) -> None:
    """By MirrorMaker's DefaultReplicationPolicy: both are called by what its connector calls the core cluster."""
    source = shop(mirror={**declared, "checkpoints": {"groups": ["readers"]}, "heartbeats": "1m"})
    manifests = render("strimzi", [source], deployment(mirror="connector"))
    config = of_kind(manifests, "KafkaConnector")["shop-mirror"]["spec"]["config"]
    alias = config["source.cluster.alias"]
    acls = of_kind(manifests, "KafkaUser")["cdc-mirror-lake"]["spec"]["authorization"]["acls"]
    own = {a["resource"]["name"] for a in acls if a["resource"]["type"] == "topic" and "Create" in a["operations"]}
    copies = {names.lake_topic(source, table) for table in source.tables}
    worker = {f"_lake-connect-{what}" for what in ("configs", "offsets", "status")}
    assert own - copies - worker == {f"mm2-offset-syncs.{alias}.internal", f"{alias}.checkpoints.internal", "heartbeats"}


def test_every_kind_may_write_and_read_what_its_connector_and_we_need() -> None:
    users = of_kind(render("strimzi", every_kind(), deployment()), "KafkaUser")

    def allowed(user: str, operation: str) -> set[str]:
        acls = users[user]["spec"]["authorization"]["acls"]
        return {a["resource"]["name"] for a in acls if a["resource"]["type"] == "topic" and operation in a["operations"]}

    writes, reads = allowed("cdc-capture-core", "Write"), allowed("cdc-assets-core", "Read")
    for kind in ("mysql", "sqlserver", "oracle", "mongodb"):
        within = f"in{kind}.crm.dbo" if kind == "sqlserver" else f"in{kind}.dbo"
        assert {f"{within}.{table}" for table in ("orders", "marker", "signals")} <= writes
        # The marker's row is what `cdc reconcile` waits for; nobody reads signals.
        assert {f"{within}.orders", f"{within}.marker"} <= reads
        assert f"{within}.signals" not in reads
    # What was dropped and made again is told by the schema history.
    groups = [
        a["resource"] for a in users["cdc-assets-core"]["spec"]["authorization"]["acls"] if a["resource"]["type"] == "group"
    ]
    assert groups == [{"type": "group", "name": "cdc_assets", "patternType": "prefix"}]
    with_history = {"maria", "inmysql", "insqlserver", "inoracle"}
    assert {name.removesuffix(".schema-history") for name in reads if name.endswith(".schema-history")} == with_history
    # Of the connector beside, by which cdc onboard reads definitions and takes a first snapshot.
    beside = {name.removesuffix(".schema-history-onboard") for name in writes if name.endswith(".schema-history-onboard")}
    assert beside == {"maria", "inmysql"}
    recovering = [
        a["resource"]["name"]
        for a in users["cdc-capture-core"]["spec"]["authorization"]["acls"]
        if a["resource"]["type"] == "group"
    ]
    assert {name.removesuffix("-schemahistory") for name in recovering if name.endswith("-schemahistory")} == with_history


def test_clients_of_a_connectors_own_have_their_users_certificate() -> None:
    manifests = render("strimzi", every_kind(), deployment(mirror="connector"))
    users, ends = of_kind(manifests, "KafkaUser"), ".ssl.keystore.key"
    found: dict[str, set[str]] = {}
    for name, manifest in of_kind(manifests, "KafkaConnector").items():
        for key, value in manifest["spec"]["config"].items():
            if key.endswith(ends):
                user = value.removeprefix("${secrets:kafka/").removesuffix(":user.key}")
                assert user in users
                found.setdefault(f"{key.removesuffix(ends)} as {user}", set()).add(name)
    with_history = {f"{name}-capture" for name in ("maria", "inmysql", "insqlserver", "inoracle")}
    mirrors = {f"{source.name}-mirror" for source in every_kind()}
    assert found == {
        "schema.history.internal.producer as cdc-capture-core": with_history,
        "schema.history.internal.consumer as cdc-capture-core": with_history,
        "source.cluster as cdc-mirror-core": mirrors,
        "target.cluster as cdc-mirror-lake": mirrors,
    }
    assert "ssl.keystore" not in "".join(render("strimzi", every_kind(), deployment(authentication="none")).values())


def test_taking_a_topic_out_of_git_never_deletes_it() -> None:
    topics = of_kind(render("strimzi", sources(), deployment()), "KafkaTopic")
    assert {topic["spec"]["topicName"] for topic in topics.values()} == {"shop.public.orders", "shop.odd.we.ird_Name_x_"}
    for topic in topics.values():
        assert topic["metadata"]["annotations"]["argocd.argoproj.io/sync-options"] == "Prune=false,Delete=false"


def test_a_table_may_keep_its_topic_longer_than_the_source_says() -> None:
    (shop,) = [source for source in sources() if isinstance(source, Source)]
    first, *rest = shop.tables
    kept = shop.model_copy(update={"tables": (first.model_copy(update={"retention": timedelta(days=30)}), *rest)})
    topics = of_kind(render("strimzi", [kept], deployment()), "KafkaTopic").values()
    found = {topic["spec"]["topicName"]: topic["spec"]["config"]["retention.ms"] for topic in topics}
    days = 24 * 3600 * 1000
    assert found == {"shop.public.orders": 30 * days, "shop.odd.we.ird_Name_x_": int(retention_ms(shop))}


def test_argo_cd_applies_every_folder_once_in_order() -> None:
    strimzi = render("strimzi", sources(), deployment())
    applications = parsed(render("argocd", sources(), deployment()))
    paths = {each["spec"]["source"]["path"] for each in applications}
    assert paths == {f"deploy/{path.rsplit('/', 1)[0]}" for path in strimzi}
    waves = {
        each["metadata"]["name"]: int(each["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"]) for each in applications
    }
    assert sorted(waves, key=lambda name: waves[name]) == ["cdc-users", "cdc-topics", "cdc-connectors", "cdc-mirror"]
    with pytest.raises(RefusalError, match="no argocd"):
        render("argocd", sources(), deployment(argocd=None))


def test_no_secret_and_nothing_of_this_machine_is_in_any_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {target: render(target, sources(), deployment()) for target in TARGETS}
    for secret in ("shop_db_password",):
        monkeypatch.setenv(f"CDC_SECRET_{secret.upper()}", CANARY)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "shop_db_password").write_text(CANARY, encoding="utf-8")
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    monkeypatch.setenv("CDC_CORE_BOOTSTRAP", "elsewhere:1")
    monkeypatch.setenv("SHOP_DB_HOST", "elsewhere")
    after = {target: render(target, list(reversed(sources()))[::-1], deployment()) for target in TARGETS}
    assert before == after
    everything = json.dumps(after)
    for word in (CANARY, str(tmp_path), "elsewhere", STAND_IN):
        assert word not in everything
    assert "${secrets:kafka/cdc-secrets:shop_db_password}" in everything


def test_a_deployment_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(RefusalError, match="refers to SHOP_DB_HOST, which the deployment does not give"):
        render("strimzi", sources(), deployment(environment={}))
    file = tmp_path / "deployment.yaml"
    with pytest.raises(RefusalError, match=r"deployment\.yaml: No such file"):
        load_deployment(file)
    file.write_text("core: {kafka: core}\nlakes: {}\n", encoding="utf-8")
    with pytest.raises(RefusalError, match=r"core\.connect: is missing.*lakes: unknown key"):
        load_deployment(file)


def test_kubernetes_names_are_valid_and_stay_apart() -> None:
    odd = ["a_b", "a-b", "A.b", "a..b", "-a", "é", "x" * 300]
    made = [kubernetes_name(name) for name in odd]
    assert len(set(made)) == len(odd)
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", name) and len(name) <= 253 for name in made)


def test_a_source_of_topics_is_not_given_topics() -> None:
    assert not of_kind(render("strimzi", [s for s in sources() if not isinstance(s, Source)], deployment()), "KafkaTopic")
