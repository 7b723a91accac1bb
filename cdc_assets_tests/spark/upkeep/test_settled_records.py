"""What was redriven long ago leaves the quarantine, and no proof says anything else afterwards: history, ledger, replay, fold."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.clients.delta_log import silver_committed
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import rows
from cdc_assets_tests.support.lake.ledger_records import ledger_spec
from cdc_assets_tests.support.lake.ledger_records import told as counted
from cdc_assets_tests.support.lake.quarantined import HISTORY, NARROW, WIDE
from cdc_assets_tests.support.lake.replayed import ReplayedTable
from cdc_assets_tests.support.oracles.proven import proven
from spark.proof import ledger_job as ledger
from spark.silver import history_job as history
from spark.silver.quarantine_redrive import Choice, drop, redrive
from spark.upkeep.maintenance_spec import MaintenanceSpec
from spark.upkeep.row_retention import SettledRecords
from spark.upkeep.table_maintenance import maintain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SUPERSEDED = [event(6, {"id": 4, "n": 1}), Record(7, '{"id": 4}', "poison"), event(8, {"id": 4, "n": 2}, op="u")]


def expire(table: ReplayedTable, until: float) -> int:
    """As the table's declaration would ask for it after so long."""
    silver = silver_committed(table.spec.path)
    assert silver is not None
    settled = SettledRecords(int(until * 1_000_000), silver.version)
    done = maintain(MaintenanceSpec(table.spec.quarantine, settled=settled, writers=table.spec.path))
    assert done.given_up == {}
    return done.rows_removed


def fates(path: str) -> Counter[str]:
    found, bronze = counted(path)
    total = sum(found.values(), Counter[str]())
    assert total.total() == bronze.total()
    return total


@pytest.mark.all
def test_proofs_are_the_same_without_what_was_redriven(session: SparkSession, tmp_path: Path) -> None:
    table = ReplayedTable(session, tmp_path, NARROW)
    table.send(*HISTORY, *SUPERSEDED)
    asked = ledger_spec(table.lake, table.spec)
    ledger.run(session, asked)
    table.spec = replace(table.spec, columns=WIDE)
    assert table.past is not None
    for path in table.paths.values():
        session.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
        session.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN n TYPE int")
    assert redrive(session, table.spec, Choice()).redriven == 3
    assert drop(session, table.spec, Choice(offset=0)) == 1
    # The history heeds it, and the ledger counts it.
    history.run(session, table.past)
    asked = replace(asked, tables=ledger_spec(table.lake, table.spec).tables)
    ledger.run(session, asked)
    before, told = answers(table, session), fates(asked.path)
    assert told == {"redriven": 3, "dropped": 1, "quarantined": 1, "applied": 3, "superseded": 1}
    assert before["replay"]

    assert expire(table, 0.0) == 0
    assert expire(table, time.time()) == 3
    # The open one and the one that was given up.
    assert sorted(row["offset"] for row in rows(table.spec.quarantine)) == [0, 7]
    assert table.fold() == [None, None]
    assert ledger.run(session, asked).version is None, "nothing has another fate"
    assert answers(table, session) == before
    # Counted anew, those records have the fates of all others, and every one has one.
    ledger.run(session, replace(asked, again=True))
    assert fates(asked.path) == {"dropped": 1, "quarantined": 1, "applied": 4, "superseded": 3}
    # What comes later finds all as it was, and the open one is looked at as before.
    assert redrive(session, table.spec, Choice()).redriven == 0
    table.send(event(9, {"id": 1, "n": 5}, op="u"), event(10, {"id": 3, "n": 6}, op="u"))
    proven(session, table.past, table.spec)
    assert {row.id: row.n for row in session.read.format("delta").load(table.spec.path).collect()} == {1: 5, 2: 2, 3: 6, 4: 2}
    assert sorted(row["offset"] for row in rows(table.spec.quarantine)) == [0, 7]


def answers(table: ReplayedTable, session: SparkSession) -> dict[str, Any]:
    assert table.past is not None
    prepared = table.compare()
    return {
        # delta-rs reads no widened column.
        "rows": {name: sorted(map(str, session.read.format("delta").load(path).collect())) for name, path in table.paths.items()},
        "history": proven(session, table.past, table.spec),
        "replay": prepared.is_empty,
        "records": (prepared.quarantined, prepared.folded),
    }
