"""`cdc remove` on a database of somebody else: afterwards it is as it was before, wherever the command was killed."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.clients.kafka import KafkaCluster
from cdc_assets.registry.loader import load_sources
from cdc_assets.stack.loopback import HOST
from cdc_assets_tests.support.live.cdc import Cdc, Lake
from cdc_assets_tests.support.live.clusters import until
from cdc_assets_tests.support.live.live_source import NAME, LiveSource
from cdc_assets_tests.support.onboarding.drive import cdc as started
from cdc_assets_tests.support.servers.own_server import OwnServer, own_server

pytestmark = pytest.mark.all

SOURCE = "leaver"
TOPIC = f"{SOURCE}.public.parcel"
_KEPT = (
    "SELECT slot_name FROM pg_replication_slots",
    "SELECT pubname FROM pg_publication",
    "SELECT nspname FROM pg_namespace",
    "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('cdc_assets')",
)


@pytest.fixture(scope="module")
def foreign(live: LiveSource, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnServer]:
    with own_server(tmp_path_factory.mktemp("foreign"), password=live.home.secret(NAME)) as server:
        yield server


def kept_by(server: OwnServer) -> list[list[str]]:
    """The oracle: what the server itself says that it keeps."""
    with server.connection() as connection:
        return [sorted(str(row[0]) for row in connection.execute(query.encode()).fetchall()) for query in _KEPT]


def lake_folders(home: Path) -> list[str]:
    return sorted(str(found.relative_to(home)) for found in home.glob("lake/*/*"))


def kill_at(word: str, *arguments: str) -> None:
    """kill -9 as soon as the command says that it has come to this part."""
    process = started("remove", SOURCE, "--yes", *arguments)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith(f"{word}: "):
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return
    raise AssertionError(f"it never came to {word}: {process.communicate()}")


def test_afterwards_the_database_is_as_before_wherever_it_was_killed(
    make_cdc: Callable[[str], Cdc], foreign: OwnServer, lake: Lake
) -> None:
    cdc = make_cdc(SOURCE)
    home, file = cdc.live.home.root, cdc.folder / f"{SOURCE}.yaml"
    with foreign.connection() as connection:
        connection.execute("CREATE TABLE public.parcel (id int PRIMARY KEY, v text)")
        connection.execute("INSERT INTO public.parcel VALUES (1, 'one')")
    before = kept_by(foreign)
    port = foreign.postgres.site.ports["postgres"]
    database: dict[str, Any] = {"kind": "postgresql", "host": HOST, "port": port, "dbname": NAME, "user": NAME}
    declared = {"source": SOURCE, "database": database | {"password": {"secret": NAME}}, "tables": [{"name": "public.parcel"}]}
    file.write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in declared.items()))
    cdc("apply", SOURCE)
    kafka = KafkaCluster(lake.bootstrap)
    until(lambda: (found := kafka.states([f"core.{TOPIC}"])) != {} and found[f"core.{TOPIC}"].ends[0] > 0)
    until(lambda: cdc.live.connect.offsets(f"{SOURCE}-capture") != [])
    cdc.json("preflight", SOURCE)  # leaves a witness at the source, as each look does
    slots, publications, schemas, tables = kept_by(foreign)
    assert (slots, publications, "cdc_assets" in schemas) == ([f"cdc_{SOURCE}"], [f"cdc_{SOURCE}"], True)
    assert {f"witness_{SOURCE}", f"signal_{SOURCE}"} <= set(tables)
    told = cdc("down", "--wipe", "--dry-run")
    assert f"replication slot cdc_{SOURCE}" in told
    assert f"cdc remove {SOURCE}" in told
    for layer in ("bronze", "silver", "quarantine"):
        (home / "lake" / layer / SOURCE / "_delta_log").mkdir(parents=True)
    (home / "lake" / "silver" / "leaver2" / "_delta_log").mkdir(parents=True)

    planned = cdc.json("remove", SOURCE, "--dry-run")
    assert kept_by(foreign) == [slots, publications, schemas, tables]
    assert [row["word"] for row in planned["plan"] if row["action"] == "keep"] == ["topics", "lake", "backup"]
    assert "--yes" in cdc("remove", SOURCE, code=2)
    for word in ("connector", "slot", "publication", "tables", "mirror", "registry"):
        kill_at(word)
    cdc("remove", SOURCE, "--yes")
    assert kept_by(foreign) == before
    assert [name for name in (*cdc.live.connect.connectors(), *lake.connect.connectors()) if name.startswith(SOURCE)] == []
    assert (file.exists(), load_sources(cdc.folder)) == (False, ())
    assert len(lake_folders(home)) == 4
    assert KafkaCluster(cdc.live.bootstrap).states([TOPIC]) != {}

    for word in ("topics", "lake"):
        kill_at(word, "--delete", "topics,lake")
    cdc("remove", SOURCE, "--yes", "--delete", "topics,lake")
    assert lake_folders(home) == ["lake/silver/leaver2"]
    assert KafkaCluster(cdc.live.bootstrap).states([TOPIC, f"{SOURCE}.message"]) == {}
    assert kafka.states([f"core.{TOPIC}"]) == {}
    assert cdc.json("remove", SOURCE, "--yes")["gone"] == []
    Path(f"{file}.removed").rename(file)
    assert [source.name for source in load_sources(cdc.folder)] == [SOURCE]
    cdc("remove", SOURCE, "--yes", "--delete", "registry")
    assert "holds no *.yaml file" in cdc("remove", SOURCE, code=1)
