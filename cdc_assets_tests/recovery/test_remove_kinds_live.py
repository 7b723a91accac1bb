"""`cdc remove` of a source of topics, and of a MariaDB: each part goes or stays by its word, and nothing else goes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets_tests.support.live.cdc import Cdc, Lake
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_binlog import SECRET
from cdc_assets_tests.support.servers.mariadb_server import PASSWORD, MariaDbServer, mariadb_server

pytestmark = pytest.mark.all

FED = "iot.guest"
SHOP = "mleaver"


def topics(bootstrap: str) -> set[str]:
    """The oracle: what the broker itself lists."""
    return set(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=60).topics)


def connectors(cdc: Cdc, source: str) -> list[str]:
    listed = (*cdc.live.connect.connectors(), *cdc.lake.connect.connectors())
    return sorted(name for name in listed if name.startswith(f"{source}-"))


def lake_of(cdc: Cdc, source: str) -> list[str]:
    home = cdc.live.home.root
    return sorted(str(found.relative_to(home)) for found in home.glob("lake/*/*") if found.name.startswith(source))


def make_lake(cdc: Cdc, source: str) -> list[str]:
    for layer in ("bronze", "silver"):
        (cdc.live.home.root / "lake" / layer / source / "_delta_log").mkdir(parents=True)
    return lake_of(cdc, source)


def copied(lake: Lake, topic: str, records: int) -> None:
    kafka = KafkaCluster(lake.bootstrap)
    until(lambda: (found := kafka.states([topic])) != {} and found[topic].ends[0] >= records)


def gone(cdc: Cdc, source: str, *words: str) -> list[str]:
    found: list[str] = cdc.json("remove", source, "--yes", *words)["gone"]
    return found


def test_a_source_of_topics_leaves_the_topics_that_others_fill(make_cdc: Callable[[str], Cdc], lake: Lake) -> None:
    cdc = make_cdc("guest")
    core = cdc.live.bootstrap
    admin = AdminClient({"bootstrap.servers": core})
    admin.create_topics([NewTopic(FED, 1, 1)])[FED].result()
    producer = Producer({"bootstrap.servers": core})
    producer.produce(FED, b'{"sensor": "a"}')
    producer.flush()
    columns = "{sensor: text}"
    (cdc.folder / "guest.yaml").write_text(
        f"source: guest\nkind: topics\ntables: [{{name: readings, topic: {FED}, envelope: json, columns: {columns}}}]\n"
    )
    assert "guest-mirror: created, RUNNING, 1 task" in cdc("apply", "guest")
    copied(lake, f"core.{FED}", 1)
    folders = make_lake(cdc, "guest")
    what = {row["word"]: row["what"] for row in cdc.json("remove", "guest", "--dry-run")["plan"]}
    assert {what[word] for word in ("connector", "slot", "publication")} == {"this source has none"}
    assert (what["tables"], what["mirror"]) == ("this source has none of ours", "guest-mirror")
    assert gone(cdc, "guest")[:1] == ["connector guest-mirror"]
    assert (connectors(cdc, "guest"), lake_of(cdc, "guest")) == ([], folders)
    assert f"core.{FED}" in topics(lake.bootstrap)
    gone(cdc, "guest", "--delete", "topics,lake")
    assert (f"core.{FED}" in topics(lake.bootstrap), lake_of(cdc, "guest")) == (False, [])
    kafka = KafkaCluster(core)
    assert [record.value for record in kafka.records(FED, kafka.states([FED])[FED].ranges)] == [b'{"sensor": "a"}']


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    with mariadb_server(tmp_path_factory.mktemp("server")) as found:
        found.execute(
            "GRANT SELECT, INSERT, DELETE, CREATE, DROP ON cdc_assets.* TO cdc",
            f"CREATE DATABASE {SHOP}",
            f"CREATE TABLE {SHOP}.parcel (id int PRIMARY KEY, v text)",
            f"INSERT INTO {SHOP}.parcel VALUES (1, 'one')",
        )
        yield found


def declare(cdc: Cdc, server: MariaDbServer) -> None:
    secret = cdc.live.home.secrets / SECRET
    secret.write_text(PASSWORD)
    secret.chmod(0o600)
    database: dict[str, Any] = {"kind": "mariadb", "host": "127.0.0.1", "port": server.port, "user": "cdc"}
    lines = {"source": SHOP, "database": database | {"password": {"secret": SECRET}}, "tables": [{"name": f"{SHOP}.parcel"}]}
    (cdc.folder / f"{SHOP}.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in lines.items()))


def databases(server: MariaDbServer) -> list[str]:
    """The oracle: the databases and tables that the server itself has, its own apart."""
    own = ("information_schema", "mysql", "performance_schema", "sys")
    schemas = [str(name) for (name,) in server.query("SHOW DATABASES") if name not in own]
    within = server.query("SELECT table_schema, table_name FROM information_schema.tables")
    return sorted([*schemas, *(f"{schema}.{table}" for schema, table in within if schema in schemas)])


def test_a_mariadb_goes_part_by_part(make_cdc: Callable[[str], Cdc], lake: Lake, server: MariaDbServer) -> None:
    cdc = make_cdc(SHOP)
    before, core = databases(server), cdc.live.bootstrap
    declare(cdc, server)
    cdc("apply", SHOP)
    copied(lake, f"core.{SHOP}.{SHOP}.parcel", 1)
    until(lambda: cdc.live.connect.offsets(f"{SHOP}-capture") != [])
    ours = [*before, "cdc_assets", f"cdc_assets.signal_{SHOP}"]
    assert databases(server) == sorted(ours)
    folders = make_lake(cdc, SHOP)

    assert gone(cdc, SHOP, "--keep", "connector,tables,mirror,registry") == []
    assert connectors(cdc, SHOP) == [f"{SHOP}-capture", f"{SHOP}-mirror"]
    assert gone(cdc, SHOP, "--keep", "tables,mirror,registry") == [f"connector {SHOP}-capture"]
    assert (connectors(cdc, SHOP), databases(server)) == ([f"{SHOP}-mirror"], sorted(ours))
    server.execute("CREATE TABLE cdc_assets.of_somebody_else (id int)")
    assert gone(cdc, SHOP, "--keep", "mirror,registry") == [f"table cdc_assets.signal_{SHOP}"]
    assert databases(server) == sorted([*before, "cdc_assets", "cdc_assets.of_somebody_else"])
    server.execute("DROP TABLE cdc_assets.of_somebody_else")
    said = cdc("remove", SHOP, "--yes", "--keep", "mirror,registry")
    assert "stays: database cdc_assets, empty now; it costs nothing, and goes by: DROP DATABASE `cdc_assets`" in said
    assert databases(server) == sorted([*before, "cdc_assets"])
    assert gone(cdc, SHOP, "--keep", "mirror,registry", "--delete", "tables") == ["database cdc_assets, empty now"]
    assert databases(server) == before

    mine = {name for bootstrap in (core, lake.bootstrap) for name in topics(bootstrap) if SHOP in name}
    assert {f"{SHOP}.{SHOP}.parcel", f"core.{SHOP}.{SHOP}.parcel", f"{SHOP}.schema-history"} <= mine
    assert gone(cdc, SHOP)[:1] == [f"connector {SHOP}-mirror"]
    assert connectors(cdc, SHOP) == []
    assert {name for bootstrap in (core, lake.bootstrap) for name in topics(bootstrap) if SHOP in name} == mine
    gone(cdc, SHOP, "--delete", "topics")
    assert {name for bootstrap in (core, lake.bootstrap) for name in topics(bootstrap) if SHOP in name} == set()
    assert lake_of(cdc, SHOP) == folders
    gone(cdc, SHOP, "--delete", "lake")
    assert lake_of(cdc, SHOP) == []
    assert gone(cdc, SHOP) == []
    assert server.query(f"SELECT v FROM {SHOP}.parcel") == [("one",)]
