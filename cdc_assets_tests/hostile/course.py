"""The course of a hostile world, the same for every database: snapshot, crossed statements, a restart, and what must hold."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from cdc_assets.capture.preflight.capturable_tables import refuse_uncapturable
from cdc_assets.capture.source_columns import catalogue_of
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.name_conflicts import find_collisions
from cdc_assets_tests.hostile.maintenance import maintained
from cdc_assets_tests.hostile.world import HostileChain, hostile_chain, tell_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = 80


class World(ABC):
    """The tables of one seed, and what happens to them. `all`: also the one of the huge transaction."""

    altered: ClassVar[float]
    """How many steps of an even seed change a table: a share."""
    live: Any
    tables: list[Any]
    all: list[Any]

    def __init__(self, seed: int) -> None:
        self.random, self.seed = Random(seed), seed
        self.happened: list[str] = []

    @abstractmethod
    def create(self) -> None:
        """Tables, and rows for the first snapshot."""

    @abstractmethod
    def settings(self) -> AbstractContextManager[None]:
        """What the server and its roles have otherwise while the world is played."""

    @abstractmethod
    def sessions(self) -> Any:
        """Those that write."""

    @abstractmethod
    def alter(self, sessions: Any, table: Any) -> str:
        """Change a table's columns; which change."""

    @abstractmethod
    def huge(self, sessions: Any) -> None:
        """One transaction of ten thousand changes, with an aborted savepoint within."""

    @abstractmethod
    def restart(self, sessions: Any) -> None:
        """The server dies with transactions open."""

    @abstractmethod
    def wrong_rows(self, chain: HostileChain) -> str:
        """What only the database or only the lake has."""

    def let_go(self, sessions: Any) -> None:  # noqa: B027 - most need nothing
        """No transaction stays open for whose end a connector waits that starts again."""

    def trouble(self, chain: HostileChain) -> None:  # noqa: B027 - most have none
        """What the product refuses or stops at by design, and its commands behind it."""

    def look(self) -> None:  # noqa: B027 - most need nothing
        """Silver knows all names of now."""

    def play(self, sessions: Any, steps: int) -> None:
        """Crossed statements; of even seeds with a change of some table now and then."""
        for _ in range(steps):
            sessions.step(self.tables)
            if self.seed % 2 == 0 and self.random.random() < self.altered:
                table = self.random.choice(self.tables)
                self.happened.append(f"{self.alter(sessions, table)} {table.name!r}")

    def write(self, sessions: Any) -> None:
        """What happens while a comparison runs; it refuses a table that is altered or truncated under it."""
        for _ in range(15):
            sessions.step(self.tables, truncate=False)


def play_world(world: World, remote: str, session: SparkSession, root: Path) -> None:
    """From its first snapshot to the comparison of every table."""
    world.create()
    declared = [table.declared for table in world.all]
    source = world.live.source(declared)
    assert list(find_collisions([source])) == []
    with world.settings(), hostile_chain(world.live, remote, session, root, declared) as chain, tell_of(world.happened):
        database = chain.platform.database(source) if source.asked else chain.platform.columns(source)
        found = catalogue_of(Chain(chain.platform, source), source.tables)
        refuse_uncapturable(database, source, found, to_read=found)
        with closing(world.sessions()) as sessions, maintained(chain) as upkeep:
            world.play(sessions, STEPS)
            if world.seed % 3 == 0:
                world.restart(sessions)
            world.huge(sessions)
            world.play(sessions, STEPS)
            world.let_go(sessions)
            chain.advance(fold=False)
            # Silver lags behind, others write, and transactions are open across the cut.
            told: dict[str, object] = {"behind": chain.not_equal(during=partial(world.write, sessions))}
            if world.seed % 2 == 0:
                # Of the other seeds all changes are folded at once.
                chain.advance()
                world.look()
            world.play(sessions, STEPS // 2)
            sessions.finish()
            chain.advance()
            # A quick machine plays a world within a few rounds, all of which may come before there is much to do.
            upkeep.maintain()
            told["rows"] = world.wrong_rows(chain)
            told |= chain.troubles()
        told["maintenance"] = upkeep.what_is_missing()
        assert_nothing(told)
        world.trouble(chain)
        assert_nothing({"rows": world.wrong_rows(chain), **chain.troubles()})


def assert_nothing(told: Mapping[str, object]) -> None:
    """What is told of is named."""
    assert not any(told.values()), "\n".join(f"{what}: {found}" for what, found in told.items() if found)
