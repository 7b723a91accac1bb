"""Proves a table's history (SCD2): read where it and silver have folded the same, and held against both silver and bronze.

Nothing of it needs the source, but the catalogue that tells how records are read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_assets.capture.source_columns import catalogue_of
from cdc_assets.chain.fold_specs import history_spec, silver_spec
from cdc_assets.clients.delta_log import SilverState, bronze_committed, silver_state, version_that_folded
from cdc_assets.clients.schema_ledger import last_known
from cdc_assets.clients.source_chain import Chain
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.proof.compared_slices import share_at
from cdc_assets.proof.compared_table import WHOLE, Share
from cdc_assets.proof.comparison_result import (
    DIFFERENT,
    EITHER,
    EQUAL,
    HISTORY,
    INCONCLUSIVE,
    SILVER,
    HistoryDifference,
    HistoryResult,
    Veil,
)
from cdc_assets.registry import names
from cdc_assets.registry.errors import ON_PURPOSE, DatabaseError
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.table.commit_metadata import Committed, Folded

if TYPE_CHECKING:
    from spark.proof.history_proof import Again, Damage, Proven
    from spark.specs import SilverSpec

_POLL_SECONDS = 1.0


def has_history(table: Table) -> bool:
    """Whether all versions of the table's rows are kept."""
    return table.history == "scd2"


def prove(chain: Chain[BaseSource], table: Table, *, part: Share = WHOLE, timeout: float = 0.0) -> HistoryResult:
    """What stands in the way is a result as well. `timeout`: seconds that the history may take to come to where silver is."""
    started = time.monotonic()
    try:
        history, silver_version = _together(chain, table, until=started + timeout)
        waited = time.monotonic() - started
        return replace(
            _proven(chain, table, history, silver_version, part),
            seconds={"wait": round(waited, 3), "lake": round(time.monotonic() - started - waited, 3)},
        )
    except ON_PURPOSE as error:
        return HistoryResult(_name(chain.source, table), INCONCLUSIVE, str(error))


def heal(chain: Chain[BaseSource], table: Table) -> int:
    """Have the wrong keys of the history folded again from all of bronze, in one commit; how many they were.

    Raises:
        SparkJobError: bronze does not hold all that the history was made of.
    """
    from spark.proof import heal_from_bronze

    with table_lock("silver", chain.source.name, names.table_name(table)):
        state = _state(chain, table)
        assert state.folded is not None
        return int(chain.platform.spark().run(heal_from_bronze.mend_history, _again(chain, table, state.folded, WHOLE)))


def shares_now(chain: Chain[BaseSource], tables: Sequence[Table]) -> dict[str, Share]:
    """By short table name, which share of the keys of large histories is looked at now; others are left out."""
    shares = {}
    for table in tables:
        reconciliation = chain.source.reconciliation_of(table)
        state = silver_state(chain.history_path(table))
        if state is not None and state.rows > reconciliation.max_rows and reconciliation.shares > 1:
            every = (table.volumetry or chain.source.volumetry).every.total_seconds()
            shares[names.table_name(table)] = share_at(reconciliation.shares, every=every, now=time.time())
    return shares


def _name(source: BaseSource, table: Table) -> str:
    return f"{source.name}/{names.table_name(table)}"


def _state(chain: Chain[BaseSource], table: Table) -> SilverState:
    state = silver_state(chain.history_path(table))
    if state is None or state.folded is None:
        raise DatabaseError(
            f"the history of {_name(chain.source, table)} does not exist yet; materialize "
            f"{'/'.join(names.asset_key('silver', chain.source, table))}"
        )
    return state


def _together(chain: Chain[BaseSource], table: Table, *, until: float) -> tuple[SilverState, int]:
    """The history, and silver's version that had folded the same: silver goes first, so the history may lie behind it."""
    while True:
        state = _state(chain, table)
        assert state.folded is not None
        version = version_that_folded(chain.silver_path(table), state.folded)
        if version is not None:
            return state, version
        if time.monotonic() > until:
            name = _name(chain.source, table)
            raise DatabaseError(
                f"silver was never where the history of {name} stands; cdc wait {chain.source.name}, then run it again"
            )
        time.sleep(_POLL_SECONDS)


def _again(chain: Chain[BaseSource], table: Table, folded: Folded, part: Share) -> Again:
    from spark.proof.history_proof import Again

    committed = bronze_committed(chain.bronze_path)
    spec = history_spec(chain.platform.lake, chain.source, table, _silver_spec(chain, table))
    return Again(spec, folded, _bronze_version(committed, folded, spec.table), *part)


def _silver_spec(chain: Chain[BaseSource], table: Table) -> SilverSpec:
    catalogued = catalogue_of(chain, [table]).get(table.id)
    catalogued = catalogued or last_known(chain.silver_path(table), table.id)
    if catalogued is None:
        raise DatabaseError(f"the source has no table {table.name}, or the role may not see it")
    return silver_spec(chain.platform.lake, chain.source, table, catalogued)


def _bronze_version(committed: Committed | None, folded: Folded, table: str) -> int:
    """The newest where nothing of the table has come since: of an idle table, the files of its last one may be vacuumed."""
    if committed is None:
        return folded.bronze_version
    from spark.bronze.change_log import is_all_folded

    return committed.version if is_all_folded(committed, folded, table) else folded.bronze_version


def _proven(chain: Chain[BaseSource], table: Table, history: SilverState, silver_version: int, part: Share) -> HistoryResult:
    from spark.proof import history_proof

    assert history.folded is not None
    again = _again(chain, table, history.folded, part)
    silver = chain.silver_path(table)
    proof = history_proof.Proof(again, history.version, silver, silver_version)
    proven = chain.platform.spark().compare(history_proof.prove, proof)
    return HistoryResult(
        table=_name(chain.source, table),
        verdict=DIFFERENT if proven.keys else INCONCLUSIVE if proven.not_folded else EQUAL,
        reason=proven.not_folded,
        version=history.version,
        silver_version=silver_version,
        versions=proven.versions,
        current=proven.rows,
        share=f"{part[0] + 1}/{part[1]}",
        keys_differing=proven.keys,
        differences=_differences(table, again.spec.keys, proven),
        not_compared=dict(proven.not_compared),
    )


def _differences(table: Table, keys: tuple[str, ...], proven: Proven) -> tuple[HistoryDifference, ...]:
    veil = Veil(table.sensitive)
    return tuple(
        HistoryDifference(veil.key(d.key, keys), d.kinds, d.versions, d.columns, _where(d, proven), d.proofs)
        for d in proven.damages
    )


def _where(damage: Damage, proven: Proven) -> str:
    from spark.proof import history_proof

    if damage.proofs != (history_proof.SILVER,):
        return HISTORY
    return EITHER if proven.not_folded else SILVER
