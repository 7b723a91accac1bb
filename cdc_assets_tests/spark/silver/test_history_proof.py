"""Each damage of a history is found at its key, and nothing else; what bronze tells is mended in one commit.

That nothing is reported where nothing is wrong is shown beside the histories' own tests (support/oracles/proven.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from cdc_assets_tests.support.lake.both_writers import compare_writers
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake, rows
from cdc_assets_tests.support.lake.versions import COLUMNS, sent, whole
from cdc_assets_tests.support.oracles.proven import proof_of, proven
from spark.errors import JobRefusedError
from spark.proof import heal_from_bronze
from spark.proof.history_proof import BRONZE, INTERVALS, SILVER, prove, why_not_folded
from spark.silver import history_job as history
from spark.specs import Column, SilverSpec
from spark.table.spark_session import execute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Versions = list[dict[str, Any]]


def lost(found: Versions) -> Versions:
    return found[:1] + found[2:]


def twice(found: Versions) -> Versions:
    return [*found, found[1]]


def with_end_moved(found: Versions) -> Versions:
    found[0]["_valid_to"] = found[2]["_valid_from"]
    return found


def two_currents(found: Versions) -> Versions:
    found[1] |= {"_valid_to": None, "_is_current": True}
    return found


def old_value(found: Versions) -> Versions:
    found[1]["note"] = "else"
    return found


def current_value(found: Versions) -> Versions:
    found[-1]["v"] = "else"
    return found


def orphan(found: Versions) -> Versions:
    return [*found, {**found[0], "id": found[0]["id"] + 100}]


def begin_moved(found: Versions) -> Versions:
    found[0]["_valid_from"] = found[0]["_valid_from"][:-1] + "~"
    return found


def marked(found: Versions) -> Versions:
    found[0]["_is_current"] = True
    return found


def current_lost(found: Versions) -> Versions:
    return found[:-1]


DAMAGES: dict[Callable[[Versions], Versions], tuple[set[str], set[str]]] = {
    # by damage: what it is called, and which proofs see it
    lost: ({"missing"}, {BRONZE}),
    twice: ({"twice"}, {INTERVALS}),
    with_end_moved: ({"differs"}, {BRONZE, INTERVALS}),
    two_currents: ({"differs"}, {BRONZE, INTERVALS, SILVER}),
    old_value: ({"differs"}, {BRONZE}),
    current_value: ({"differs"}, {BRONZE, SILVER}),
    orphan: ({"phantom"}, {BRONZE}),
    begin_moved: ({"missing", "phantom"}, {BRONZE, INTERVALS}),
    marked: ({"differs"}, {BRONZE, INTERVALS}),
    current_lost: ({"missing"}, {BRONZE, SILVER}),
}


def four_versions_each(session: SparkSession, tmp_path: Path) -> tuple[SilverSpec, SilverSpec, Lake]:
    """Keys 1 to 12: made, changed, deleted, made again, changed."""
    lake, at = Lake(session, tmp_path), 0
    for op, v, note in (("c", "a", "x"), ("u", "b", "y"), ("d", None, None), ("c", "c", "z"), ("u", "d", "z")):
        for key in range(1, 13):
            lake.put("t", sent(at, at, key, v, note, op))
            at += 1
    lake.append(lake.all_of("t"))
    silver = replace(lake.spec("t", COLUMNS), quarantine_path=str(tmp_path / "quarantine"))
    step = replace(silver, path=str(tmp_path / "history"))
    lake.fold(silver)
    history.run(session, step)
    compare_writers(lake)
    return silver, step, lake


def test_each_damage_is_found_at_its_key_and_mended(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silver, step, _ = four_versions_each(session, tmp_path)
    before = whole(step.path)
    assert proven(session, step, silver) == (48, 12)
    by_key: dict[int, Versions] = {}
    for row in sorted(rows(step.path), key=lambda r: r["_valid_from"]):
        by_key.setdefault(row["id"], []).append(row)
    for key, damage in enumerate(DAMAGES, start=1):
        by_key[key] = damage(by_key[key])
    schema = DeltaTable(step.path).to_pyarrow_table().schema
    broken = pa.Table.from_pylist([row for versions in by_key.values() for row in versions], schema=schema)
    write_deltalake(step.path, broken, mode="overwrite")
    # Of silver itself, the history being right.
    DeltaTable(silver.path).update(predicate="id = 12", updates={"note": "'else'"})

    told = {d.key: (set(d.kinds), set(d.proofs)) for d in prove(session, proof_of(step, silver)).damages}
    wanted = {f"{107 if damage is orphan else key};": facts for key, (damage, facts) in enumerate(DAMAGES.items(), start=1)}
    assert told == {**wanted, "12;": ({"differs from silver's row"}, {SILVER})}
    parts = [{d.key for d in prove(session, proof_of(step, silver, part, 2)).damages} for part in (0, 1)]
    assert sorted(parts[0] | parts[1]) == sorted(told)
    assert parts[0]
    assert parts[1]
    assert not parts[0] & parts[1]

    asked = proof_of(step, silver).again
    with monkeypatch.context() as patch:
        patch.setattr(heal_from_bronze, "execute", killed)
        with pytest.raises(KeyboardInterrupt):
            heal_from_bronze.mend_history(session, asked)
    assert len(rows(step.path)) == broken.num_rows
    assert heal_from_bronze.mend_history(session, asked) == len(wanted)
    assert whole(step.path) == before
    assert heal_from_bronze.mend_history(session, asked) == 0
    # Its place in the log is as it was.
    assert history.run(session, step).version is None


@pytest.mark.all
def test_killed_behind_its_commit_the_heal_has_left_nothing_to_do(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silver, step, _ = four_versions_each(session, tmp_path)
    before = whole(step.path)
    schema = DeltaTable(step.path).to_pyarrow_table().schema
    left = [row for row in rows(step.path) if (row["id"] in (3, 4), row["v"]) != (True, "b")]
    write_deltalake(step.path, pa.Table.from_pylist(left, schema=schema), mode="overwrite")
    assert len(left) == len(before) - 2
    asked = proof_of(step, silver).again

    def killed_behind(*arguments: Any, **more: Any) -> None:
        execute(*arguments, **more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(heal_from_bronze, "execute", killed_behind)
        with pytest.raises(KeyboardInterrupt):
            heal_from_bronze.mend_history(session, asked)
    version = DeltaTable(step.path).version()
    assert whole(step.path) == before
    assert proven(session, step, silver) == (48, 12)
    assert (heal_from_bronze.mend_history(session, asked), history.run(session, step).version) == (0, None)
    assert DeltaTable(step.path).version() == version


@pytest.mark.all
def test_what_bronze_cannot_prove_is_said_and_left_alone(session: SparkSession, tmp_path: Path) -> None:
    silver, step, lake = four_versions_each(session, tmp_path)
    changed = replace(proof_of(step, silver).again, spec=replace(step, track_history=("v",)))
    assert why_not_folded(session, changed).startswith("the columns whose changes make a version were (note, v), and are (v) now")
    DeltaTable(lake.bronze_path).delete("offset < 3")
    (current,) = [row for row in rows(step.path) if row["id"] == 5 and row["_is_current"]]
    DeltaTable(step.path).update(predicate=f"_cdc_position = '{current['_cdc_position']}'", updates={"v": "'else'"})
    newest = DeltaTable(lake.bronze_path).version()
    proof = proof_of(step, silver)
    found = prove(session, replace(proof, again=replace(proof.again, bronze_version=newest)))
    assert found.not_folded == "bronze lacks 3 of the 60 records that the history was made of"
    assert [(d.key, d.kinds, d.columns) for d in found.damages] == [("5;", ("differs from silver's row",), ("v",))]
    with pytest.raises(JobRefusedError, match="bronze lacks 3 of the 60"):
        heal_from_bronze.mend_history(session, replace(proof.again, bronze_version=newest))


@pytest.mark.all
def test_a_version_by_a_column_that_was_made_again_is_no_phantom(session: SparkSession, tmp_path: Path) -> None:
    """What the column of before held, bronze cannot tell; of the others it tells what it always did."""
    lake, numbered = Lake(session, tmp_path), [replace(column, number=n) for n, column in enumerate(COLUMNS, 1)]
    silver = replace(lake.spec("t", numbered), quarantine_path=str(tmp_path / "quarantine"))
    step = replace(silver, path=str(tmp_path / "history"))

    def fold(columns: list[Column], *records: Record) -> None:
        lake.put("t", *records)
        lake.append(lake.all_of("t"))
        lake.fold(replace(silver, columns=tuple(columns)))
        history.run(session, replace(step, columns=tuple(columns)))

    fold(
        numbered, *(sent(n, n, n, "a", "x", "c") for n in range(1, 4)), sent(4, 4, 1, "a", "y", "u"), sent(5, 5, 2, "b", "y", "u")
    )
    anew = [*numbered[:2], replace(numbered[2], number=7)]
    fold(anew, sent(6, 6, 2, "b", "new", "u"), sent(7, 7, 3, "c", "new", "u"))
    assert proven(session, step, silver, without={"note"}) == (7, 3)
    compare_writers(lake)
    versions = sorted(row["_valid_from"] for row in rows(step.path) if row["id"] == 2)
    for key, change in ((2, f"_valid_from = '{versions[1]}'"), (3, "_is_current")):
        DeltaTable(step.path).update(predicate=f"id = {key} AND {change}", updates={"v": "'else'"})
    told = {d.key: (d.kinds, d.columns, d.proofs) for d in prove(session, proof_of(step, silver)).damages}
    assert told["3;"] == (("differs",), ("v",), (BRONZE, SILVER))
    assert told["2;"][2] == (BRONZE,)
    assert told.keys() == {"2;", "3;"}


def killed(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
