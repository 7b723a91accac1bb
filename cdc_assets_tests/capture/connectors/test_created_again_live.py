"""A connector that was deleted and is created again: Connect has kept its offsets, and somebody has to choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from cdc_assets.capture.connectors.apply_connector import apply_connector
from cdc_assets.capture.connectors.connector_start import MARK
from cdc_assets.clients.connect import ConnectClient
from cdc_assets_tests.support.live.cdc import Cdc

NAME = "again-capture"


class KilledError(Exception):
    """The process is gone behind this request."""


class Killed(ConnectClient):
    """Dies behind the first request that changes something."""

    def __init__(self, connect: ConnectClient) -> None:
        super().__init__(connect.url)

    def create(self, name: str, config: Mapping[str, str], *, initial_state: str = "RUNNING") -> None:
        super().create(name, config, initial_state=initial_state)
        raise KilledError

    def delete(self, name: str, *, deadline: float = 60.0) -> None:
        super().delete(name, deadline=deadline)
        raise KilledError


@pytest.fixture(scope="module")
def cdc(make_cdc: Callable[[str], Cdc]) -> Iterator[Cdc]:
    cdc = make_cdc("again")
    cdc.make_table()
    yield cdc
    cdc.live.connect.delete(NAME)
    cdc.lake.connect.delete("again-mirror")


def test_killed_behind_any_request_it_is_begun_by_the_next_apply(cdc: Cdc) -> None:
    connect = cdc.live.connect
    config = {
        "name": "again-beats",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "target.cluster.bootstrap.servers": cdc.live.bootstrap,
    }
    for leftovers in ("marked", "nothing"):
        with pytest.raises(KilledError):
            apply_connector(Killed(connect), config)
        found = connect.config("again-beats")
        assert (found is None, MARK in (found or {})) == ((True, False) if leftovers == "nothing" else (False, True))
    applied = apply_connector(connect, config)
    assert (applied.summary, applied.resumed_offsets, applied.status.running) == ("created", 0, True)
    assert connect.config("again-beats") == config
    assert apply_connector(connect, config).summary == "unchanged"


def test_offsets_of_before_are_named_and_somebody_has_to_choose(cdc: Cdc) -> None:
    cdc.json("apply", "again")
    cdc.live.delivered()
    cdc.live.connect.delete(NAME)
    assert "+++ again-capture as declared" in cdc("diff", code=1)
    failed, _ = cdc.json("apply", "again", code=1)
    assert "Connect has kept its offsets: {'server': 'again'} at {'" in failed["error"]
    assert f"cdc resume {NAME} (or cdc apply --resume-offsets)" in failed["error"]
    assert f"cdc offsets reset {NAME}, then cdc apply" in failed["error"]
    (row,) = [row for row in cdc.json("get", "connectors", "again") if row["name"] == NAME]
    assert row["state"] == "STOPPED"
    assert f"cdc offsets reset {NAME}" in row["trace"]
    assert cdc.json("diff", "again", code=1)[0]["summary"] == "create"
    with cdc.live.connection() as connection:
        connection.execute("INSERT INTO public.again VALUES (2, 'two')")
    assert "RUNNING" in cdc("resume", NAME)
    assert cdc.json("apply", "again")[0]["summary"] == "unchanged"
    assert keys(cdc) == ['{"id":1}', '{"id":2}']


@pytest.mark.all
def test_or_has_it_begin_anew(cdc: Cdc) -> None:
    cdc.live.connect.delete(NAME)
    cdc.json("apply", "again", code=1)
    assert cdc.json("offsets", "reset", NAME)["after"] == []
    assert cdc.json("apply", "again")[0]["summary"] == "created"
    assert keys(cdc) == ['{"id":1}', '{"id":2}', '{"id":1}', '{"id":2}']


def keys(cdc: Cdc) -> list[bytes | str | None]:
    return [record.key for record in cdc.live.delivered()["again.public.again"][0]]
