"""Statements of the servers' own test suites, and by chance: the guard tells each that bends Debezium's model, and no other.

The oracle is Debezium's own parser and converters (support/statements/outcomes.py), by what a real server wrote into its binlog.
A run plays a share that a seed chooses: `CDC_STATEMENTS_SEED` plays one again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random

import pytest

from cdc_assets_tests.hostile.seeds import seed_of_files
from cdc_assets_tests.support.servers.binlog_server import BinlogServer
from cdc_assets_tests.support.statements.chance import alteration
from cdc_assets_tests.support.statements.corpus import KINDS, Case, corpus
from cdc_assets_tests.support.statements.outcomes import Outcome, outcomes
from cdc_assets_tests.support.statements.played import own_server

pytestmark = [pytest.mark.service, pytest.mark.all]

SHARE = 120
# Found by it, each with what became of it: the fixed part of every share.
KNOWN = {
    "bends": Case("ALTER TABLE t ADD r REAL", ("CREATE TABLE t (id int PRIMARY KEY)",)),
    "stops": Case(
        "ALTER TABLE t REORGANIZE PARTITION", ("CREATE TABLE t (id int PRIMARY KEY) PARTITION BY KEY (id) PARTITIONS 2",)
    ),
    "labels": Case('ALTER TABLE t ADD s SET("a","b"), ADD e ENUM("it\'s")', ("CREATE TABLE t (id int PRIMARY KEY)",)),
    "digits": Case("ALTER TABLE t ADD d DECIMAL(0,0)", ("CREATE TABLE t (id int PRIMARY KEY)",)),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BinlogServer]:
    with own_server(kind, tmp_path_factory.mktemp("statements")) as found:
        yield found


def seed() -> int:
    return int(os.environ.get("CDC_STATEMENTS_SEED") or seed_of_files())


def wrong(found: list[Outcome]) -> list[str]:
    """What the guard misses, and its false alarms."""
    told = [f"missed: {one.text}: {one.missed}" for one in found if one.missed]
    return told + [f"false alarm: {one.text}: {one.false_alarms}" for one in found if one.false_alarms]


def test_the_guard_tells_what_bends_a_model(kind: str, server: BinlogServer) -> None:
    chosen = Random(seed()).sample(corpus(kind), SHARE)
    found = outcomes(kind, server, [*KNOWN.values(), *chosen])
    assert len(found) > SHARE / 2, seed()
    by_statement = {one.case.statement: one for one in found}
    assert by_statement[KNOWN["bends"].statement].bends
    assert by_statement[KNOWN["bends"].statement].guard
    assert by_statement[KNOWN["stops"].statement].stops
    assert not wrong(found), (seed(), *wrong(found))


def test_the_guard_tells_what_alterations_by_chance_bend(kind: str, server: BinlogServer) -> None:
    random = Random(seed())
    found = outcomes(kind, server, [alteration(random) for _ in range(2 * SHARE)])
    assert sum(bool(one.bends) for one in found) > 3, seed()
    assert not wrong(found), (seed(), *wrong(found))
