"""Every kind of damage of a live table, planted and taken back: in silver, and in bronze before silver folds it.

The keys are accounts that nobody else writes (`reconcile_bank.KEYS`), so exactly what is planted must be found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from deltalake import DeltaTable

from cdc_assets.registry import names
from cdc_assets_tests.support.live.small_chain import SmallChain

Found = dict[str, tuple[str, str]]
SILVER, BRONZE = "silver", "bronze or before it"


@dataclass(frozen=True)
class Damage:
    """`plant` damages the account with this key; what must be found, by key: kind and place."""

    name: str
    plant: Callable[[SmallChain, int], None]
    found: Callable[[int], Found]
    mend: Callable[[SmallChain, int], None] | None = None


def accounts_of(chain: SmallChain) -> str:
    """The large table's name in results."""
    return names.table_name(chain.source.tables[0])


def _silver(statement: str) -> Callable[[SmallChain, int], None]:
    def plant(chain: SmallChain, key: int) -> None:
        chain.session.sql(statement.format(t=f"delta.`{chain.silver(accounts_of(chain))}`", k=key)).collect()

    return plant


def _lost_in_bronze(change: str, *, offset: int = 0) -> Callable[[SmallChain, int], None]:
    """The change is made at the source, and its record taken out of bronze before silver folds it."""
    at_source = _source(change)

    def plant(chain: SmallChain, key: int) -> None:
        at_source(chain, key)
        bronze = f"{chain.root}/bronze/{chain.source.name}"
        place = f"delta.`{bronze}` WHERE `table` = '{accounts_of(chain)}' AND decode(key, 'UTF-8') LIKE '%{key + offset}%'"
        before = chain.session.sql(f"SELECT max(offset) AS last FROM {place}").collect()[0].last
        before = -1 if before is None else before
        deadline, lost = time.monotonic() + 120, 0
        while not lost:
            assert time.monotonic() < deadline, f"{change}: not delivered"
            chain.advance(fold=False, wait=False)
            lost = chain.session.sql(f"SELECT count(*) AS lost FROM {place} AND offset > {before}").collect()[0].lost
        chain.session.sql(f"DELETE FROM {place} AND offset > {before}").collect()
        chain.fold()

    return plant


def _source(change: str) -> Callable[[SmallChain, int], None]:
    def mend(chain: SmallChain, key: int) -> None:
        with chain.live.connection() as connection:
            connection.execute(change.format(k=key))  # type: ignore[arg-type]

    return mend


def _one(kind: str, where: str = SILVER, *, offset: int = 0) -> Callable[[int], Found]:
    return lambda key: {f"{key + offset};": (kind, where)}


def _swap(chain: SmallChain, key: int) -> None:
    """The prices of two neighbours."""
    table = f"delta.`{chain.silver(accounts_of(chain))}`"
    rows = chain.session.sql(f"SELECT aid, price FROM {table} WHERE aid IN ({key}, {key + 1})").collect()
    price = {row.aid: row.price for row in rows}
    swapped = f"CASE aid WHEN {key} THEN {price[key + 1]} ELSE {price[key]} END"
    chain.session.sql(f"UPDATE {table} SET price = {swapped} WHERE aid IN ({key}, {key + 1})").collect()


DAMAGES = (
    Damage("row lost in silver", _silver("DELETE FROM {t} WHERE aid = {k}"), _one("missing")),
    Damage("stale row", _silver("UPDATE {t} SET abalance = abalance - 1 WHERE aid = {k}"), _one("differs")),
    Damage(
        "phantom",
        _silver("INSERT INTO {t} SELECT aid + 9000000, * EXCEPT (aid) FROM {t} WHERE aid = {k}"),
        _one("phantom", offset=9_000_000),
    ),
    Damage("truncated value", _silver("UPDATE {t} SET filler = left(filler, 5) WHERE aid = {k}"), _one("differs")),
    Damage("swapped pair", _swap, lambda key: {f"{key};": ("differs", SILVER), f"{key + 1};": ("differs", SILVER)}),
    Damage("decimal off by one unit", _silver("UPDATE {t} SET price = price + 0.01 WHERE aid = {k}"), _one("differs")),
    Damage("NULL turned into 0", _silver("UPDATE {t} SET bound = 0 WHERE aid = {k}"), _one("differs")),
    Damage("row twice", _silver("INSERT INTO {t} SELECT * FROM {t} WHERE aid = {k}"), _one("twice")),
    Damage(
        "change lost in bronze",
        _lost_in_bronze("UPDATE pgbench_accounts SET price = price + 1 WHERE aid = {k}"),
        _one("differs", BRONZE),
        _source("UPDATE pgbench_accounts SET price = price + 1 WHERE aid = {k}"),
    ),
    Damage(
        "delete lost in bronze",
        _lost_in_bronze("DELETE FROM pgbench_accounts WHERE aid = {k}"),
        _one("phantom", BRONZE),
        _source("INSERT INTO pgbench_accounts VALUES ({k}, 1, 1, 'again', 1, 1)"),
    ),
    Damage(
        "row lost in bronze",
        _lost_in_bronze("INSERT INTO pgbench_accounts VALUES ({k} + 1000000, 1, 1, 'new', 1, 1)", offset=1_000_000),
        _one("missing", BRONZE, offset=1_000_000),
        _source("UPDATE pgbench_accounts SET price = price + 1 WHERE aid = {k} + 1000000"),
    ),
)


@contextmanager
def planted(chain: SmallChain, damage: Damage, key: int) -> Iterator[Found]:
    """Damaged, with nobody else folding; what a comparison must find."""
    path = chain.silver(accounts_of(chain))
    whole = DeltaTable(path).version()
    damage.plant(chain, key)
    yield damage.found(key)
    if damage.mend is not None:
        damage.mend(chain, key)
    else:
        DeltaTable(path).restore(whole)
