"""The ledger when what it has counted changes afterwards: quarantine emptied, silver restored, a job killed, two at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.events import event
from cdc_assets_tests.support.lake.lake import Lake, rows
from cdc_assets_tests.support.lake.ledger_records import ledger_spec, told
from cdc_assets_tests.support.lake.quarantined import HISTORY, NARROW, WIDE
from spark.errors import CommitLeftOutError
from spark.proof import ledger_job
from spark.proof.ledger_folds import table_slice
from spark.proof.ledger_job import count_slice
from spark.silver.quarantine_redrive import Choice, drop, redrive
from spark.table.delta_table import DeltaTable, table_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def fates(path: str) -> Counter[str]:
    found, bronze = told(path)
    total = sum(found.values(), Counter())
    assert total.total() == bronze.total()
    return total


@pytest.mark.all
def test_what_was_mended_moves_to_its_new_fate(session: SparkSession, tmp_path: Path) -> None:
    lake = Lake(session, tmp_path)
    spec = lake.spec("t", NARROW)
    ledger = ledger_spec(lake, spec)
    lake.put("t", *HISTORY)
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    ledger_job.run(session, ledger)
    # Poison, and three values too large for smallint; of two readable records each is its key's newest.
    assert fates(ledger.path) == {"quarantined": 4, "applied": 2}
    session.sql(f"ALTER TABLE delta.`{spec.path}` SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    session.sql(f"ALTER TABLE delta.`{spec.path}` ALTER COLUMN n TYPE int")
    wide = replace(spec, columns=WIDE)
    redrive(session, wide, Choice())
    drop(session, wide, Choice(error_class="envelope"))
    again = replace(ledger, tables=ledger_spec(lake, wide).tables)
    ledger_job.run(session, again)
    assert fates(ledger.path) == {"redriven": 3, "dropped": 1, "applied": 2}
    assert {row["quarantined"] for row in rows(ledger.path)} >= {-1}
    assert ledger_job.run(session, again).version is None


@pytest.mark.all
def test_a_restored_silver_is_counted_anew(session: SparkSession, tmp_path: Path) -> None:
    """Its folds are undone, so the fates are those of the folds that come afterwards."""
    lake = Lake(session, tmp_path)
    spec, ledger = lake.spec("t"), ledger_spec(lake, lake.spec("t"))
    for offset in range(3):
        lake.put("t", event(offset, {"id": 1, "v": f"v{offset}"}, op="cuu"[offset]))
        lake.append(lake.all_of("t"))
        lake.fold(spec)
    ledger_job.run(session, ledger)
    assert fates(ledger.path) == {"applied": 3}
    session.sql(f"RESTORE delta.`{spec.path}` TO VERSION AS OF 0").collect()
    lake.fold(spec)
    ledger_job.run(session, ledger)
    assert fates(ledger.path) == {"applied": 2, "superseded": 1}


@pytest.mark.all
def test_killed_or_twice_at_once_counts_once(session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a TRUNCATE has fates of its own: what it made obsolete in its own fold is superseded."""
    lake = Lake(session, tmp_path)
    spec, ledger = lake.spec("t"), ledger_spec(lake, lake.spec("t"))
    truncate = event(2, None, op="t")
    lake.put("t", event(0, {"id": 1, "v": "a"}), event(1, {"id": 2, "v": "b"}), truncate, event(3, {"id": 2, "v": "c"}))
    lake.append(lake.all_of("t"))
    lake.fold(spec)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "find_commit", killed)
        with pytest.raises(KeyboardInterrupt):
            ledger_job.run(session, ledger)
    assert ledger_job.run(session, ledger).version is None
    assert fates(ledger.path) == {"superseded": 2, "applied": 2}
    lake.put("t", Record(4, '{"id": 2}', None))
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    stale = table_of(ledger.path).fold(ledger_job.fold_ledger)
    part = table_slice(session, ledger, ledger.tables[0], stale)
    assert part is not None
    news = count_slice(session, ledger, part, lambda: [])
    ledger_job.commit(session, ledger, stale, {"t": news})
    with pytest.raises(CommitLeftOutError):
        ledger_job.commit(session, ledger, stale, {"t": news})
    assert fates(ledger.path) == {"superseded": 2, "applied": 2, "ignored": 1}


@pytest.mark.all
def test_without_a_key_an_event_is_a_row(session: SparkSession, tmp_path: Path) -> None:
    """What was delivered twice is older; a TRUNCATE takes the rows out, and what applied them is no longer applied."""
    lake = Lake(session, tmp_path)
    spec = lake.spec("t", keys=())
    ledger = ledger_spec(lake, spec)
    first = [event(n, {"id": 1, "v": f"v{n}"}) for n in range(3)]
    lake.put("t", *first, Record(3, first[0].key, first[0].value), Record(4, first[1].key, first[1].value))
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    ledger_job.run(session, ledger)
    assert fates(ledger.path) == {"applied": 3, "older": 2}
    lake.put("t", event(5, None, op="t"), event(6, {"id": 2, "v": "x"}))
    lake.append(lake.all_of("t"))
    lake.fold(spec)
    ledger_job.run(session, ledger)
    assert fates(ledger.path) == {"applied": 2, "older": 5}


@pytest.mark.all
def test_of_a_multiset_what_is_delivered_again_is_older_up_to_its_last_record(session: SparkSession, tmp_path: Path) -> None:
    """One of the records cannot be read: its first delivery is in quarantine, and its second is a replay like the others."""
    lake = Lake(session, tmp_path)
    spec = replace(lake.spec("t", keys=()), without_key="multiset")
    ledger = ledger_spec(lake, spec)
    first = [event(0, {"id": 1, "v": "a"}), event(1, {"id": 2, "v": "b"}), event(2, {"id": "two", "v": "c"})]
    for times in range(3):
        # The second and the third time in a fold of their own.
        lake.put("t", *(Record(3 * times + n, record.key, record.value) for n, record in enumerate(first)))
        lake.append(lake.all_of("t"))
        lake.fold(spec)
        if times != 1:
            ledger_job.run(session, ledger)
    assert [row["id"] for row in rows(spec.path)] == [1, 2]
    assert fates(ledger.path) == {"applied": 2, "quarantined": 1, "older": 6}
