"""`cdc adopt` on a connector and a mirror that were made by hand: taken over without a restart, then a table onboarded live."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from cdc_assets.clients.connector_states import ConnectorStatus
from cdc_assets_tests.support.handmade import ALIAS, Handmade
from cdc_assets_tests.support.live.cdc import Cdc
from cdc_assets_tests.support.live.clusters import until

NAME = "erp"
NONE = ConnectorStatus("erp", "ABSENT", (), ())


@pytest.fixture(scope="module")
def erp(make_cdc: Callable[[str], Cdc]) -> Iterator[Handmade]:
    made = Handmade(make_cdc(NAME), NAME, topics="erp-erp.public.erp_orders")
    with made.live.connection() as connection:
        connection.execute("CREATE TABLE erp_orders (id int PRIMARY KEY, v text, price numeric(10,2), at timestamptz)")
        connection.execute("CREATE TABLE erp_later (id int PRIMARY KEY, v text)")
        connection.execute("INSERT INTO erp_orders SELECT i, 'v' || i, i / 4.0, now() FROM generate_series(1, 50) i")
        connection.execute("INSERT INTO erp_later SELECT i, 'v' || i FROM generate_series(1, 20) i")
    made.start("public.erp_orders")
    try:
        until(lambda: made.copies() > 0)
        yield made
    finally:
        made.stop()


@contextmanager
def topics_of_mirror(made: Handmade) -> Iterator[list[str]]:
    """What the mirror's list has been, in order, while the block ran."""
    seen: list[str] = []
    ended = threading.Event()

    def watch() -> None:
        url = f"{made.cdc.lake.connect.url}/connectors/{made.mirror}/config"
        with httpx.Client(timeout=60) as client:
            while not ended.wait(0.05):
                answer = client.get(url)
                if answer.status_code == 200 and (topics := answer.json()["topics"]) not in seen[-1:]:
                    seen.append(topics)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()


@pytest.mark.all
def test_what_cannot_be_taken_over_is_told(erp: Handmade) -> None:
    cdc, url = erp.cdc, erp.live.connect.url
    told = cdc("adopt", "nobody", "--dry-run", code=1)
    assert told.startswith(f"no connector nobody at {url}; connectors of Debezium there: ")
    assert erp.connector in told
    beats = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": erp.live.bootstrap,
        "target.cluster.bootstrap.servers": erp.live.bootstrap,
    }
    Handmade.post(url, "beats", beats)
    try:
        assert "and not one of Debezium's that captures a database" in cdc("adopt", "beats", "--dry-run", code=1)
    finally:
        erp.live.connect.delete("beats")
    assert "is no name of a source" in cdc("adopt", erp.connector, "--source", "Not A Name", "--dry-run", code=1)
    assert "nobody can be asked here" in cdc("adopt", erp.connector, "--source", NAME, code=2)
    httpx.put(f"{url}/connectors/{erp.connector}/pause", timeout=60).raise_for_status()
    try:
        until(lambda: "PAUSED" in (erp.live.connect.status(erp.connector) or NONE).tasks)
        told = cdc("adopt", erp.connector, "--dry-run", code=1)
        assert f"does not run (PAUSED, tasks PAUSED); cdc resume {erp.connector}, then cdc adopt" in told
    finally:
        httpx.put(f"{url}/connectors/{erp.connector}/resume", timeout=60).raise_for_status()
    until(lambda: Handmade.is_running(url, erp.connector))
    until(lambda: bool(erp.reader()))
    assert not list(cdc.folder.glob("*.yaml"))


@pytest.mark.all
def test_it_is_taken_over_as_it_is_and_a_table_comes_in(erp: Handmade) -> None:
    cdc, reader, password = erp.cdc, erp.reader(), erp.password
    before = erp.live.connect.config(erp.connector), erp.cdc.lake.connect.config(erp.mirror)
    plan = cdc.json("adopt", erp.connector, "--source", NAME, "--dry-run")
    assert (plan["written"], list(cdc.folder.glob("*.yaml"))) == (False, [])
    assert plan["tables"] == ["public.erp_orders"]
    assert plan["slot"]["name"] == "erp_slot"
    assert plan["slot"]["active"] is True
    assert plan["publication"]["name"] == "dbz_erp"
    assert plan["offsets"][0]["partition"] == {"server": "erp-erp"}
    assert plan["mirror"] == {"connector": erp.mirror, "alias": ALIAS}
    assert list(plan["copies"]) == [f"{ALIAS}.erp-erp.public.erp_orders"]
    differing = {each["setting"]: each for each in plan["differences"]}
    assert differing["signal.data.collection"]["theirs"] is None
    assert differing["signal.data.collection"]["weight"] == "weaker"
    # What a config leaves out is the plugin's default, and forms of values are declared: no differences.
    assert not {"decimal.handling.mode", "table.include.list", "exactly.once.support"} & differing.keys()
    assert password not in str(plan)

    text = cdc("adopt", erp.connector, "--source", NAME, "--yes")
    assert "was not restarted" in text
    written = (cdc.folder / f"{NAME}.yaml").read_text()
    assert password not in written + text
    assert "database.password: (kept)" in written.replace('"', "")
    assert (erp.live.connect.config(erp.connector), erp.cdc.lake.connect.config(erp.mirror)) == before
    cdc("diff", NAME)
    assert [row["summary"] for row in cdc.json("apply", NAME)] == ["unchanged", "unchanged"]
    assert erp.reader() == reader
    assert f"declared already, by source {NAME}" in cdc("adopt", erp.connector, "--yes", code=1)

    refused = cdc("onboard", NAME, "public.erp_later", code=1)
    assert "capture.settings" in refused
    assert "--route temporary" in refused
    cdc("onboard", NAME, "--rollback")
    assert erp.reader() == reader

    file = cdc.folder / f"{NAME}.yaml"
    file.write_text(file.read_text().replace("mirror:\n", "mirror:\n  new_tables: first\n"))
    assert "new_tables: first" in file.read_text()
    with topics_of_mirror(erp) as carried:
        done = cdc.json("onboard", NAME, "public.erp_later", "--route", "temporary")
    assert done["state"] == "done"
    new, both = r"erp-erp\.public\.erp_later", r"erp-erp.public.erp_orders,erp-erp\.public\.erp_later"
    assert carried == ["erp-erp.public.erp_orders", new, both]
    assert done["steps"]["verify"]["rows"]["public.erp_later"] == {"source": 20, "topic": 20}
    config = erp.live.connect.config(erp.connector) or {}
    assert config["table.include.list"] == r"public.erp_orders,(?-i:public\.erp_later)"
    assert config["database.password"] == password
    assert {key for key in config if config[key] != before[0][key]} == {"table.include.list"}  # type: ignore[index]
    cdc("diff", NAME)
    copy = f"{ALIAS}.erp-erp.public.erp_later"
    until(lambda: copy in str(httpx.get(f"{cdc.lake.connect.url}/connectors/{erp.mirror}/topics", timeout=60).json()))


@pytest.mark.all
def test_what_ours_would_change_is_taken_only_when_it_is_asked_for(make_cdc: Callable[[str], Cdc]) -> None:
    """Theirs with which the lake would be wrong cannot be kept; `--ours` declares none of it, and apply brings ours."""
    made = Handmade(make_cdc("till"), "till")
    with made.live.connection() as connection:
        connection.execute("CREATE TABLE till_bons (id int PRIMARY KEY, v text)")
        connection.execute("INSERT INTO till_bons VALUES (1, 'one')")
    made.start("public.till_bons", message__prefix__include__list="theirs")
    try:
        until(lambda: made.copies() > 0)
        reader = made.reader()
        told = made.cdc("adopt", made.connector, "--source", "till", "--yes", code=1)
        assert "message.prefix.include.list is theirs, ours (drawn prefix): markers of ours would not come" in told
        assert not (made.cdc.folder / "till.yaml").exists()
        made.cdc("adopt", made.connector, "--source", "till", "--yes", "--ours")
        assert "settings" not in (made.cdc.folder / "till.yaml").read_text()
        assert made.reader() == reader
        made.cdc("diff", "till", code=1)
        rows = {row["connector"]: row for row in made.cdc.json("apply", "till")}
        assert rows[made.connector]["summary"] == "changed"
        assert "message.prefix.include.list" in rows[made.connector]["changed_keys"]
        assert rows[made.mirror]["summary"] == "changed"
        until(lambda: made.reader() not in ("", reader))
        made.cdc("diff", "till")
    finally:
        made.stop()
        (made.cdc.folder / "till.yaml").unlink(missing_ok=True)
