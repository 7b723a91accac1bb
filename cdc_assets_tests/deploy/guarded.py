"""One source of each kind that is captured, whose components are users of a broker that speaks TLS only; as rendered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pytest
from confluent_kafka.admin import NewTopic

from cdc_assets.capture.connectors.declared_connectors import declared_connectors
from cdc_assets.clients.connect import ConnectClient
from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.deploy.manifest import Deployment
from cdc_assets.deploy.rendered_files import render
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.deploy.documents import of_kind
from cdc_assets_tests.deploy.registry import deployment
from cdc_assets_tests.deploy.secured import Secured, secured
from cdc_assets_tests.support.live.live_mariadb import SECRET, LiveMariaDb
from cdc_assets_tests.support.live.live_source import LiveSource
from cdc_assets_tests.support.servers.mariadb_server import PASSWORD

TOPIC, COPY = "guarded.public.guarded", "core.guarded.public.guarded"


@dataclass
class Ground:
    """Every component of one source runs as its own user."""

    place: Secured
    live: LiveSource
    source: Source
    maria: LiveMariaDb
    configs: dict[str, dict[str, str]]

    @cached_property
    def capturing(self) -> ConnectClient:
        """The core's worker, as the user that captures."""
        return self.place.worker("core", core="cdc-capture-core")

    @cached_property
    def mirroring(self) -> ConnectClient:
        """The lake's worker, as the user that mirrors."""
        return self.place.worker("lake", core="cdc-mirror-core", lake="cdc-mirror-lake")

    @property
    def kept(self) -> Source:
        """The source whose connector keeps a schema history."""
        return self.maria.source(["guarded.kept"])

    @property
    def bootstrap(self) -> str:
        return self.place.broker.address

    def reader(self, user: str) -> KafkaCluster:
        """The product's own reader of a cluster, by certificate."""
        return KafkaCluster(self.bootstrap, login=self.place.logins.tls(user))

    def started(self, connect: ConnectClient, *names: str) -> None:
        """As rendered, logins and all."""
        for name in names:
            connect.put_config(name, self.configs[name])
        for name in names:
            connect.wait_running(name)

    def applied(self, connect: ConnectClient, name: str, sources: Sequence[Source], **users: str) -> None:
        """Stopped, and started again as `cdc apply` writes it; `users` are those of its own clients, by cluster."""
        with self.live.settings(), pytest.MonkeyPatch.context() as patch:
            patch.setenv("CDC_CONNECT_SECRETS", str(self.place.site.home.secrets))
            for cluster in ("core", "lake"):
                patch.setenv(f"CDC_{cluster.upper()}_BOOTSTRAP", self.bootstrap)
                patch.setenv(f"CDC_{cluster.upper()}_LOGIN", self.place.logins.tls(users.get(cluster, "nobody")))
            config = next(each.config for each in declared_connectors(sources) if each.name == name)
        connect.stop(name)
        connect.put_config(name, config)
        connect.resume(name)
        connect.wait_running(name)


@pytest.fixture(scope="module")
def ground(live: LiveSource, mariadb: LiveMariaDb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    own, maria = replace(live, name="guarded"), mariadb.renamed("kept")
    maria.server.execute(
        "CREATE DATABASE guarded", "CREATE TABLE guarded.kept (id int PRIMARY KEY)", "INSERT INTO guarded.kept VALUES (1)"
    )
    plan = {"mirror": {"heartbeats": "1s", "checkpoints": {"groups": ["readers"], "every": "1s"}}}
    source = Source.model_validate({**own.source(["public.guarded"]).model_dump(mode="json", exclude_unset=True), **plan})
    declared = [source, maria.source(["guarded.kept"])]
    users = of_kind(render("strimzi", declared, _deployment("unknown:1")), "KafkaUser")
    secrets = {"live": (live.home.secrets / "live").read_text(), SECRET: PASSWORD}
    with live.connection() as connection:
        connection.execute("CREATE TABLE public.guarded (id int PRIMARY KEY, v text)")
        connection.execute("INSERT INTO public.guarded VALUES (1, 'one')")
    with secured(tmp_path_factory.mktemp("secured"), (*users, "nobody"), secrets) as found:
        for user, manifest in users.items():
            found.grant(user, manifest["spec"]["authorization"]["acls"])
        # As the KafkaTopics make them.
        found.admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        rendered = of_kind(render("strimzi", declared, _deployment(found.broker.address)), "KafkaConnector")
        yield Ground(found, own, source, maria, {name: _config(each["spec"]) for name, each in rendered.items()})
    with live.connection() as connection, suppress(Exception):
        connection.execute("SELECT pg_drop_replication_slot('cdc_guarded')")


def _deployment(bootstrap: str) -> Deployment:
    def cluster(role: str) -> dict[str, str]:
        return {"kafka": role, "connect": f"{role}-connect", "bootstrap": bootstrap}

    return deployment(mirror="connector", authentication="tls", core=cluster("core"), lake=cluster("lake"))


def _config(spec: dict[str, Any]) -> dict[str, str]:
    """As Strimzi's operator hands it to Connect."""
    return {**spec["config"], "connector.class": spec["class"], "tasks.max": str(spec["tasksMax"])}
