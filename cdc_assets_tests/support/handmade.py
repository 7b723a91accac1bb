"""A stack as people make it by hand: a Debezium connector and a mirror by REST, own names, a password in clear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from cdc_assets.stack.components.postgres_server import ensure_role
from cdc_assets.stack.loopback import HOST
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_source import NAME, LiveSource

CONNECTOR, MIRROR, ALIAS = "{}-debezium-postgres-connector", "mm-data-lake-{}", "onprem"
ROLE = "handmade"


def capture_by_hand(name: str, tables: str, address: dict[str, str]) -> dict[str, str]:
    """A connector's config, as a blog would have it: `address` says where the database is, and what else there is to say."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": HOST,
        **address,
        "plugin.name": "pgoutput",
        "slot.name": f"{name}_slot",
        "publication.name": f"dbz_{name}",
        "decimal.handling.mode": "string",
        "topic.prefix": f"erp-{name}",
        "table.include.list": tables,
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "false",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
    }


def carry_by_hand(topics: str, core: str, lake: str) -> dict[str, str]:
    """A mirror's config, for the topics of a regular expression."""
    return {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": ALIAS,
        "target.cluster.alias": "data-lake",
        "source.cluster.bootstrap.servers": core,
        "target.cluster.bootstrap.servers": lake,
        "topics": topics,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset-syncs.topic.location": "target",
        "refresh.topics.interval.seconds": "2",
        "consumer.isolation.level": "read_committed",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "header.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    }


def reader_of(connection: Any, slot: str) -> str:
    """The server's process at the slot and when it began: another one after each start of the connector's task."""
    query = (
        "SELECT concat(s.active_pid, ' ', a.backend_start) FROM pg_replication_slots s "
        "JOIN pg_stat_activity a ON a.pid = s.active_pid WHERE s.slot_name = %s"
    )
    row = connection.execute(query, [slot]).fetchone()
    return str(row[0]) if row else ""


@dataclass
class Handmade:
    """What was made under one name: nothing of it is called as we would call it."""

    cdc: Cdc
    name: str
    topics: str = ""
    """What the mirror takes; else every topic of the prefix."""

    @property
    def connector(self) -> str:
        return CONNECTOR.format(self.name)

    @property
    def mirror(self) -> str:
        return MIRROR.format(self.name)

    @property
    def password(self) -> str:
        """Of a role of its own: it stands in Connect in clear, where no test may find that of the others."""
        return self.live.home.secret(ROLE)

    @property
    def live(self) -> LiveSource:
        return self.cdc.live

    def capture(self, tables: str) -> dict[str, str]:
        """Its config, as a blog would have it."""
        address = {
            "database.port": str(self.live.postgres.site.ports["postgres"]),
            "database.user": ROLE,
            "database.password": self.password,
            "database.dbname": NAME,
            "publication.autocreate.mode": "filtered",
        }
        return capture_by_hand(self.name, tables, address)

    def carry(self) -> dict[str, str]:
        """The mirror's: every topic of the prefix."""
        return carry_by_hand(self.topics or rf"erp-{self.name}\..*", self.live.bootstrap, self.cdc.lake.bootstrap)

    def start(self, tables: str, **more: str) -> None:
        """Both run, by POSTs of JSON as with curl."""
        with self.live.connection() as connection:
            ensure_role(connection, ROLE, self.password, "LOGIN SUPERUSER")
        secret = self.live.home.secrets / f"{self.name}_password"
        secret.write_text(self.password)
        secret.chmod(0o600)
        changed = {key.replace("__", "."): value for key, value in more.items()}
        self.post(self.live.connect.url, self.connector, {**self.capture(tables), **changed})
        self.post(self.cdc.lake.connect.url, self.mirror, self.carry())
        until(lambda: self.is_running(self.live.connect.url, self.connector))
        until(lambda: self.is_running(self.cdc.lake.connect.url, self.mirror))

    def stop(self) -> None:
        self.live.connect.delete(self.connector)
        self.cdc.lake.connect.delete(self.mirror)

    @staticmethod
    def post(url: str, name: str, config: dict[str, str], login: tuple[str, str] | None = None) -> None:
        body = {"name": name, "config": config}
        httpx.post(f"{url}/connectors", json=body, auth=login, timeout=60, trust_env=False).raise_for_status()

    @staticmethod
    def is_running(url: str, name: str, login: tuple[str, str] | None = None) -> bool:
        answer = httpx.get(f"{url}/connectors/{name}/status", auth=login, timeout=60, trust_env=False)
        if answer.status_code != 200:
            return False
        said: dict[str, Any] = answer.json()
        return said["connector"]["state"] == "RUNNING" and [task["state"] for task in said["tasks"]] == ["RUNNING"]

    def reader(self) -> str:
        """As `reader_of` says."""
        with self.live.connection() as connection:
            return reader_of(connection, f"{self.name}_slot")

    def copies(self) -> int:
        """How many rows the copies on the lake's cluster are behind: the mirror's committed offsets, as Connect tells them."""
        url = f"{self.cdc.lake.connect.url}/connectors/{self.mirror}/offsets"
        return len(httpx.get(url, timeout=60).json()["offsets"])
