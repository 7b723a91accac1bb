"""Histories of a real PostgreSQL that Hypothesis makes up, act by act, folded anyhow: silver is what PostgreSQL holds then.

Twenty of two tables, each through a connector of its own; the acts of one that fails are printed. Many at a time:
`python -m benchmarks.histories`.
"""

from __future__ import annotations

import random
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.errors import StopTest
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from cdc_assets_tests.support.histories.comparison import difference
from cdc_assets_tests.support.histories.recording import capture, player_of, recorded, save
from cdc_assets_tests.support.histories.replay import fold
from cdc_assets_tests.support.histories.snapshots import SIGNALS, restart, signal
from cdc_assets_tests.support.histories.tables import KINDS
from cdc_assets_tests.support.lake.lake import Lake
from cdc_assets_tests.support.live.live_source import LiveSource, live_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

EXAMPLES = 20
KEPT = Path(tempfile.gettempdir())
WORLDS = 2
_numbers = count(1)
_seeds = st.integers(0, 2**32)
_tables = st.integers(0, 1)


class Histories(RuleBasedStateMachine):
    """Two tables, three sessions in each, one connector; what is committed in the end is compared."""

    live: ClassVar[LiveSource]
    session: ClassVar[SparkSession]
    remote: ClassVar[str]
    folder: ClassVar[Path]
    played: ClassVar[list[dict[str, int]]]

    def __init__(self) -> None:
        super().__init__()
        self.number, self.stack = next(_numbers), ExitStack()
        self.own = replace(self.live, name=f"stateful{self.number}")
        self.connection = self.stack.enter_context(self.live.connection())
        self.connection.execute("SET TIME ZONE 'UTC'")
        self.connection.execute(f"CREATE TABLE IF NOT EXISTS {SIGNALS} (id text PRIMARY KEY, type text, data text)")

    @initialize(seed=_seeds, kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=2, unique=True))
    def captured(self, seed: int, kinds: list[str]) -> None:
        self.choice = random.Random(seed)
        names = [f"{kind}_{self.number}" for kind in kinds]
        self.players = [player_of(self.own, self.connection, self.stack, name, WORLDS, self.choice) for name in names]
        for player in self.players:
            for _ in range(10):
                player.step()
        capture(self.own, self.choice, self.players)

    @rule(table=_tables, seed=_seeds, steps=st.integers(1, 12))
    def statements(self, table: int, seed: int, steps: int) -> None:
        player = self.players[table]
        player.choice = random.Random(seed)
        for _ in range(steps):
            player.step()

    @rule(table=_tables)
    def truncated(self, table: int) -> None:
        self.players[table].truncate()

    @rule(table=_tables, seed=_seeds)
    def altered(self, table: int, seed: int) -> None:
        self.players[table].choice = random.Random(seed)
        self.players[table].alter()

    @rule(table=_tables, kind=st.sampled_from(["incremental", "blocking"]))
    def read_again(self, table: int, kind: str) -> None:
        signal(self.connection, self.players[table], f"{self.number}-{next(_numbers)}", kind=kind)

    @rule()
    def forgotten(self) -> None:
        restart(self.own, self.connection, self.players)

    def teardown(self) -> None:
        # Of an act that fails where it once did not, Hypothesis tells that the data differs, and not what failed.
        if (failed := sys.exc_info()[1]) is not None and not isinstance(failed, StopTest):
            traceback.print_exception(failed)
        with self.stack:
            if not hasattr(self, "players"):
                return
            for player in self.players:
                player.finish()
                if player.unknown:
                    signal(self.connection, player, f"{self.number}-{player.name}", kind="incremental")
            found = recorded(self.own, self.connection, self.players)
            self.live.connect.delete(f"{self.own.name}-capture")
        lake = Lake(self.session, self.folder / str(self.number))
        specs = fold(lake, found, str(self.number), remote=self.remote, batches=3)
        self.played.append({act: sum(r.acts.get(act, 0) for r in found) for r in found for act in r.acts})
        differing = [text for table in found if (text := difference(lake, specs[table.table], table))]
        if differing:
            save(KEPT / f"{self.number}.json.gz", found)
        assert not differing, f"{differing}; fold it again: python -m benchmarks.histories --load {KEPT}/{self.number}.json.gz"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveSource]:
    """A server of its own: a connector that forgets its offsets is waited for by the only slot that is in use."""
    with live_source(tmp_path_factory.mktemp("stateful")) as source:
        yield source


def test_silver_equals_postgresql(own: LiveSource, session: SparkSession, remote: str, tmp_path: Path) -> None:
    Histories.live, Histories.session, Histories.remote = own, session, remote
    Histories.folder, Histories.played = tmp_path, []
    asked = settings(
        max_examples=EXAMPLES,
        stateful_step_count=12,
        deadline=None,
        derandomize=True,
        # A failing history takes half a minute: it is printed as it was, not made smaller.
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Histories, settings=asked)
    acts: dict[str, int] = {}
    for played in Histories.played:
        acts = {act: acts.get(act, 0) + played.get(act, 0) for act in {**acts, **played}}
    print(f"{len(Histories.played)} histories of two tables: {dict(sorted(acts.items()))}")
    assert len(Histories.played) >= EXAMPLES
