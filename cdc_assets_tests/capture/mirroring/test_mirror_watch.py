"""Looks at mirrors over time, and the repair, on clusters that are a list of records each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_assets.capture import mirror_losses
from cdc_assets.capture.mirror_losses import MirrorState, mirror_states, plan, repair
from cdc_assets.clients.connector_states import ConnectorStatus, SourceOffset
from cdc_assets.clients.kafka import Record, TopicState
from cdc_assets.clients.source_chain import Chain
from cdc_assets.defs.capture_assets import _metadata
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import Source, TopicSource, UnaskedSource

NOW_MS = 4_000_000_000_000


@dataclass
class Topics:
    """A cluster: one partition per topic, records by offset, None where a transaction's marker is."""

    id: str = "first"
    begin: int = 0
    records_: list[str | None] = field(default_factory=list)
    here: bool = True
    uncommitted: int = 0

    def high_watermarks(self, topics: list[str]) -> dict[str, dict[int, int]]:
        return {t: {0: len(self.records_) + self.uncommitted} for t in topics}

    def states(self, topics: list[str]) -> dict[str, TopicState]:
        return {t: TopicState(t, self.id, {0: (self.begin, len(self.records_))}) for t in topics} if self.here else {}

    def records(self, topic: str, ranges: Mapping[int, tuple[int, int]]) -> Iterator[Record]:
        for partition, (start, end) in ranges.items():
            for offset in range(max(start, self.begin), end):
                if self.records_[offset] is not None:
                    yield Record(partition, offset, NOW_MS, None, b"", ())

    def topic_config(self, topic: str) -> dict[str, str]:
        return {"retention.ms": "3600000"}


@dataclass
class Mirror:
    """Connect, as far as the repair needs it."""

    offset: int | None = None
    state: str | None = None
    done: list[str] = field(default_factory=list)

    def offsets(self, name: str) -> list[dict[str, Any]]:
        at = {"partition": {"cluster": "core", "topic": "clicks", "partition": 0}, "offset": {"offset": self.offset}}
        return [] if self.offset is None else [at]

    def status(self, name: str) -> ConnectorStatus | None:
        return None if self.state is None else ConnectorStatus.parse(name, {"connector": {"state": self.state}, "tasks": []})

    def stop(self, name: str) -> None:
        self.done.append(f"stop {name}")

    def patch_offsets(self, name: str, offsets: list[SourceOffset]) -> None:
        assert [(o.partition["topic"], o.offset) for o in offsets] == [("clicks", None)]
        self.offset = None

    def resume(self, name: str) -> None:
        self.done.append(f"resume {name}")

    def wait_running(self, name: str) -> None:
        self.done.append("running")


@dataclass
class World:
    core: Topics = field(default_factory=Topics)
    lake: Topics = field(default_factory=Topics)
    mirror: Mirror = field(default_factory=Mirror)

    @property
    def platform(self) -> Any:
        return SimpleNamespace(core_kafka=lambda _: self.core, lake_kafka=lambda: self.lake, lake_connect=lambda: self.mirror)

    def look(self) -> MirrorState:
        (state,) = mirror_states(Chain(self.platform, SOURCE))
        return state


SOURCE = TopicSource.model_validate(
    {
        "source": "web",
        "kind": "topics",
        "tables": [{"name": "clicks", "topic": "clicks", "envelope": "json", "columns": {"id": "text"}}],
    }
)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three records and a marker, copied whole."""
    monkeypatch.setenv("CDC_HOME", str(tmp_path))
    monkeypatch.setattr(mirror_losses, "find_uncarried", lambda *_: [])
    found = World(Topics(records_=["a", "b", "c", None]), Topics(records_=["a", "b", "c"]), Mirror(offset=2))
    assert found.look().state == "ok"
    return found


def test_the_expiry_of_a_marker_is_no_loss(world: World) -> None:
    world.core.records_ += ["d"]
    assert world.look().state == "copying"
    world.core.begin = 4
    assert world.look().state == "copying"


def test_a_person_sees_lag_and_lost_ranges(world: World) -> None:
    world.core.records_ += ["d", "e"]
    assert _metadata(world.look())["cdc/lag"] == 2
    world.core.begin = 5
    shown = _metadata(world.look())
    (row,) = shown["cdc/lost"].records
    assert row.data == {"topic": "clicks", "partition": "0", "from": "4", "to": "4", "what": "lost"}
    assert shown["cdc/repair"] == "cdc repair mirror clicks"


@pytest.mark.parametrize(("cluster", "topic"), [("core", "clicks"), ("lake", "core.clicks")])
def test_a_transaction_that_stays_open_is_told_and_one_that_goes_on_is_not(world: World, cluster: str, topic: str) -> None:
    held: Topics = getattr(world, cluster)
    held.uncommitted = 5
    assert world.look().findings == ()
    end = len(held.records_)
    (finding,) = world.look().findings
    assert (finding.kind, finding.red) == ("open", False)
    assert f"topic {topic} partition 0: a transaction that began at offset {end} is open" in finding.message
    held.records_ += ["e"]
    assert all(finding.kind != "open" for finding in world.look().findings)


@pytest.mark.parametrize(("state", "command"), [("FAILED", "cdc restart web-mirror"), ("STOPPED", "cdc resume web-mirror")])
def test_a_mirror_that_does_not_run_warns_before_anything_is_lost(world: World, state: str, command: str) -> None:
    world.mirror.state = state
    found = world.look()
    assert (found.state, found.repair, [f.red for f in found.findings]) == ("halted", "", [False])
    assert command in found.findings[0].message
    assert "cdc/lost" not in _metadata(found)
    world.core.records_ += ["d", "e"]
    world.core.begin = 5
    assert (world.look().state, world.look().repair) == ("lost", "cdc repair mirror clicks")


def test_a_loss_stays_until_it_is_repaired(world: World) -> None:
    world.core.records_ += ["d", "e", None, "f"]
    world.core.begin = 6
    lost = world.look()
    assert [(f.kind, f.lost) for f in lost.findings] == [("lost", (4, 5))]
    world.mirror.offset, world.lake.records_ = 7, ["a", "b", "c", "f"]
    assert world.look().findings == lost.findings
    chosen = plan(world.platform, [SOURCE], "clicks")
    assert repair(world.platform, chosen, print).state == "ok"
    assert world.mirror.done == []


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "mysql", "sqlserver"])
def test_a_table_of_a_database_is_read_again(world: World, kind: str) -> None:
    """The loss was forgotten for every kind but PostgreSQL, and nothing was read."""
    model: type[Source | UnaskedSource] = Source if kind in ("postgresql", "mariadb") else UnaskedSource
    table = {"name": "s.t"} if model is Source else {"name": "s.t", "keys": ["id"], "columns": {"id": "bigint not null"}}
    within = {"dbname": "d"} if kind in ("postgresql", "sqlserver") else {}
    database = {"kind": kind, "host": "db", "user": "u", "password": {"secret": "p"}, **within}
    source = model.model_validate({"source": "shop", "database": database, "tables": [table]})
    steps = " ".join(_steps_after_a_loss(world, source, "shop.d.s.t" if kind == "sqlserver" else "shop.s.t"))
    assert "cdc onboard shop s.t --again" in steps
    assert "is not read again" not in steps


def test_of_a_topic_that_others_fill_is_said_that_nobody_can_be_asked(world: World) -> None:
    steps = " ".join(_steps_after_a_loss(world, SOURCE, "clicks"))
    assert "cdc onboard" not in steps
    assert "clicks is not read again: nobody can be asked for it from here" in steps


def _steps_after_a_loss(world: World, source: Source | UnaskedSource | TopicSource, topic: str) -> list[str]:
    mirror_states(Chain(world.platform, source))
    world.core.records_ += ["d", "e"]
    world.core.begin = 5
    return plan(world.platform, [source], topic).steps


def test_a_jump_between_looks_is_counted(world: World) -> None:
    world.core.records_ += ["d", "e", "f"]
    world.core.begin, world.mirror.offset = 6, 6
    world.lake.records_ += ["d", "e", "f"]
    assert world.look().state == "ok"
    world.core.records_ += ["g", "h", "i"]
    world.core.begin, world.mirror.offset = 9, 9
    world.lake.records_ += ["i"]
    assert [(f.kind, f.lost) for f in world.look().findings] == [("lost", (7, 8))]


def test_a_topic_made_again_is_copied_again(world: World) -> None:
    world.core.here = False
    assert world.look().state == "absent"
    with pytest.raises(RefusalError, match="not on the core cluster"):
        repair(world.platform, plan(world.platform, [SOURCE], "clicks"), print)
    world.core = Topics("second", 0, ["k", "l", "m", "n"])
    assert world.look().state == "recreated"
    world.mirror.offset = 3
    chosen = plan(world.platform, [SOURCE], "clicks")
    assert chosen.again
    assert repair(world.platform, chosen, print).state == "copying"
    assert world.mirror.done == ["stop web-mirror", "resume web-mirror", "running"]
    world.mirror.offset = 3
    assert world.look().state == "ok"
    assert plan(world.platform, [SOURCE], "clicks").steps == []
