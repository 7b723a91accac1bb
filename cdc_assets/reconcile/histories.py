"""Proves a table's history (SCD2): read where it and silver have folded the same, and held against both silver and bronze.

Nothing of it needs the source, but the catalogue that tells how records are read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.errors import ON_PURPOSE, DatabaseError
from cdc_assets.reconcile.history_result import EITHER, HISTORY, SILVER, HistoryDifference, HistoryResult
from cdc_assets.reconcile.result import Veil
from cdc_assets.reconcile.slices import WHOLE, Share, share_at
from cdc_assets.reconcile.verdict import DIFFERENT, EQUAL, NOT_COMPARED
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import SilverState, bronze_committed, silver_state, version_that_folded
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.schema_ledger import last_known
from cdc_assets.resources.table_lock import table_lock
from cdc_assets.tables.fold_specs import history_spec, silver_spec
from cdc_assets.tables.source_catalogue import catalogue_of
from spark.delta.commits import Committed, Folded

if TYPE_CHECKING:
    from spark.reconcile.history_again import Again
    from spark.reconcile.history_proof import Damage, Proven
    from spark.specs import SilverSpec

_POLL_SECONDS = 1.0


def has_history(table: Table) -> bool:
    """Whether all versions of the table's rows are kept."""
    return table.history == "scd2"


def prove(platform: Platform, source: BaseSource, table: Table, *, part: Share = WHOLE, timeout: float = 0.0) -> HistoryResult:
    """What stands in the way is a result as well. `timeout`: seconds that the history may take to come to where silver is."""
    started = time.monotonic()
    try:
        history, silver_version = _together(platform, source, table, until=started + timeout)
        waited = time.monotonic() - started
        return replace(
            _proven(platform, source, table, history, silver_version, part),
            seconds={"wait": round(waited, 3), "lake": round(time.monotonic() - started - waited, 3)},
        )
    except ON_PURPOSE as error:
        return HistoryResult(_name(source, table), NOT_COMPARED, str(error))


def heal(platform: Platform, source: BaseSource, table: Table) -> int:
    """Have the wrong keys of the history folded again from all of bronze, in one commit; how many they were.

    Raises:
        SparkJobError: bronze does not hold all that the history was made of.
    """
    from spark.reconcile import history_mend

    with table_lock("silver", source.name, names.table_name(table)):
        state = _state(platform, source, table)
        assert state.folded is not None
        return int(platform.spark().run(history_mend.run, _again(platform, source, table, state.folded, WHOLE)))


def shares_now(platform: Platform, source: BaseSource, tables: Sequence[Table]) -> dict[str, Share]:
    """By short table name, which share of the keys of large histories is looked at now; others are left out."""
    found = {}
    for table in tables:
        wanted = source.reconciliation_of(table)
        state = silver_state(names.history_path(platform.lake, source, table))
        if state is not None and state.rows > wanted.max_rows and wanted.shares > 1:
            every = (table.volumetry or source.volumetry).every.total_seconds()
            found[names.table_name(table)] = share_at(wanted.shares, every=every, now=time.time())
    return found


def _name(source: BaseSource, table: Table) -> str:
    return f"{source.name}/{names.table_name(table)}"


def _state(platform: Platform, source: BaseSource, table: Table) -> SilverState:
    state = silver_state(names.history_path(platform.lake, source, table))
    if state is None or state.folded is None:
        raise DatabaseError(
            f"the history of {_name(source, table)} does not exist yet; materialize "
            f"{'/'.join(names.asset_key('silver', source, table))}"
        )
    return state


def _together(platform: Platform, source: BaseSource, table: Table, *, until: float) -> tuple[SilverState, int]:
    """The history, and silver's version that had folded the same: silver goes first, so the history may lie behind it."""
    while True:
        state = _state(platform, source, table)
        assert state.folded is not None
        version = version_that_folded(names.silver_path(platform.lake, source, table), state.folded)
        if version is not None:
            return state, version
        if time.monotonic() > until:
            name = _name(source, table)
            raise DatabaseError(f"silver was never where the history of {name} stands; cdc wait {source.name}, then run it again")
        time.sleep(_POLL_SECONDS)


def _again(platform: Platform, source: BaseSource, table: Table, folded: Folded, part: Share) -> Again:
    from spark.reconcile.history_again import Again

    committed = bronze_committed(names.bronze_path(platform.lake, source))
    spec = history_spec(platform.lake, source, table, _silver_spec(platform, source, table))
    return Again(spec, folded, _bronze_version(committed, folded, spec.table), *part)


def _silver_spec(platform: Platform, source: BaseSource, table: Table) -> SilverSpec:
    found = catalogue_of(platform, source, [table]).get(table.id)
    found = found or last_known(names.silver_path(platform.lake, source, table), table.id)
    if found is None:
        raise DatabaseError(f"the source has no table {table.name}, or the role may not see it")
    return silver_spec(platform.lake, source, table, found)


def _bronze_version(committed: Committed | None, folded: Folded, table: str) -> int:
    """The newest where nothing of the table has come since: of an idle table, the files of its last one may be vacuumed."""
    if committed is None:
        return folded.bronze_version
    from spark.bronze.slice import is_all_folded

    return committed.version if is_all_folded(committed, folded, table) else folded.bronze_version


def _proven(
    platform: Platform, source: BaseSource, table: Table, history: SilverState, silver_version: int, part: Share
) -> HistoryResult:
    from spark.reconcile import history_proof

    assert history.folded is not None
    again = _again(platform, source, table, history.folded, part)
    silver = names.silver_path(platform.lake, source, table)
    asked = history_proof.Proof(again, history.version, silver, silver_version)
    found = platform.spark().compare(history_proof.prove, asked)
    return HistoryResult(
        table=_name(source, table),
        verdict=DIFFERENT if found.keys else NOT_COMPARED if found.not_folded else EQUAL,
        reason=found.not_folded,
        version=history.version,
        silver_version=silver_version,
        versions=found.versions,
        current=found.rows,
        share=f"{part[0] + 1}/{part[1]}",
        keys_differing=found.keys,
        differences=_differences(table, again.spec.keys, found),
        not_compared=dict(found.not_compared),
    )


def _differences(table: Table, keys: tuple[str, ...], found: Proven) -> tuple[HistoryDifference, ...]:
    veil = Veil(table.sensitive)
    return tuple(
        HistoryDifference(veil.key(d.key, keys), d.kinds, d.versions, d.columns, _where(d, found), d.proofs)
        for d in found.damages
    )


def _where(damage: Damage, found: Proven) -> str:
    from spark.reconcile import history_proof

    if damage.proofs != (history_proof.SILVER,):
        return HISTORY
    return EITHER if found.not_folded else SILVER
