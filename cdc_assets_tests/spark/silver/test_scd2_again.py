"""A history that goes on from what it has: random events, whatever their order, cuts and repetitions, end in the versions
that plain Python tells (version_oracle), which are also those of a history made anew from all of bronze.

They take minutes, and are among `--all`.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets.capture.connectors.setting_overrides import PUBLIC as GAP
from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake, rows
from cdc_assets_tests.support.lake.versions import COLUMNS, place, sent, whole
from cdc_assets_tests.support.oracles.proven import proven
from cdc_assets_tests.support.oracles.version_oracle import Happened, Oracle
from spark.silver import history_job as history
from spark.silver import quarantine_redrive
from spark.silver.quarantine_redrive import Choice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONGER = range(2, 7)
SEEDS = [pytest.param(seed, marks=pytest.mark.all) for seed in (1, *LONGER)]
KEYS, PARTITIONS = 40, 2


@dataclass
class Source:
    """What happened, and the records of it by partition: those of a key in one, TRUNCATEs in the first."""

    chosen: random.Random
    happened: list[Happened] = field(default_factory=list)
    log: dict[int, list[Record]] = field(default_factory=lambda: {p: [] for p in range(PARTITIONS)})
    there: dict[int, bool] = field(default_factory=dict)

    def play(self, events: int) -> None:
        for at in range(events):
            key = self.chosen.randrange(KEYS)
            if self.chosen.random() < 1 / events:
                self.there.clear()
                self._send(Happened(at, 0, "t"), 0)
            elif not self.there.get(key):
                self._send(self._whole(at, key, "c"))
            else:
                self._change(at, key)
            if self.chosen.random() < 0.06:
                partition = self.chosen.randrange(PARTITIONS)
                self.log[partition] += self.log[partition][-self.chosen.randrange(1, 6) :]

    def records(self, *, shuffled: bool) -> dict[int, list[Record]]:
        """By partition, numbered; shuffled, a key's events come in any order."""
        for log in self.log.values():
            if shuffled:
                self.chosen.shuffle(log)
        return {p: [replace(r, offset=i) for i, r in enumerate(log)] for p, log in self.log.items()}

    def _change(self, at: int, key: int) -> None:
        act = self.chosen.choice("wwppppddmb")
        free = [k for k in range(KEYS) if not self.there.get(k)]
        if act == "m" and free:
            self._send(Happened(at, key, "d"))
            new = self.chosen.choice(free)
            self._send(replace(self._whole(at, new, "c"), part=True, moved_from=key))
        elif act == "d":
            self._send(Happened(at, key, "d"))
        elif act == "p":
            self._send(replace(self._whole(at, key, "u"), part=True))
        else:
            self._send(replace(self._whole(at, key, "u"), broken=act == "b" and self.chosen.random() < 0.5))

    def _whole(self, at: int, key: int, op: str) -> Happened:
        return Happened(at, key, op, self.chosen.choice("abc"), self.chosen.choice(["x", "y", None]))

    def _send(self, one: Happened, partition: int | None = None) -> None:
        self.happened.append(one)
        self.there[one.key] = one.op not in ("d", "t")
        record = sent(0, one.place, one.key, one.v, GAP if one.part else one.note, one.op)
        if one.broken:
            record = replace(record, value=json.dumps({**json.loads(record.value or "{}"), "op": "?"}))
        self.log[one.key % PARTITIONS if partition is None else partition].append(record)


def told(path: str) -> list[tuple[Any, ...]]:
    found = rows(path)
    assert all(row["_is_current"] == (row["_valid_to"] is None) for row in found)
    versions = [(r["id"], r["v"], r["note"], place(r["_valid_from"]), place(r["_valid_to"])) for r in found]
    assert len(set(versions)) == len(versions)
    return sorted(versions, key=str)


@pytest.mark.parametrize("seed", SEEDS)
def test_going_on_ends_in_what_happened(session: SparkSession, tmp_path: Path, seed: int) -> None:
    lake, source, chosen = Lake(session, tmp_path), Source(random.Random(seed)), random.Random(-seed)
    source.play(900 if seed in LONGER else 300)
    cuts = [0, 40, 200] if seed in LONGER else [120, 160]
    log = source.records(shuffled=seed % 3 == 0)
    for partition, records in log.items():
        lake.put("t", *records, partition=partition)
    silver = replace(lake.spec("t", COLUMNS), quarantine_path=str(tmp_path / "quarantine"))
    of_v = seed % 2 == 0
    step = replace(silver, path=str(tmp_path / "history"), track_history=("v",) if of_v else ())
    ends = dict.fromkeys(log, 0)
    while any(ends[p] < len(log[p]) for p in log):
        ends = {p: min(len(log[p]), end + chosen.choice(cuts)) for p, end in ends.items()}
        if not any(ends.values()):
            continue
        lake.append(lake.ranges("t", ends))
        lake.fold(silver)
        history.run(session, step)
    proven(session, step, silver)
    happened = sorted(source.happened, key=lambda one: one.place)
    versions = Oracle(of_v).tell(happened)
    assert told(step.path) == sorted(versions, key=str), f"seed {seed}"
    # Silver beside it, from the same bronze: the versions that hold.
    held = [(row["id"], row["v"], row["note"]) for row in rows(silver.path)]
    assert sorted(held, key=str) == sorted((v[:3] for v in versions if v[4] is None), key=str), f"seed {seed}"
    if seed in LONGER:
        anew = replace(step, path=str(tmp_path / "anew"))
        history.run(session, anew)
        assert whole(step.path) == whole(anew.path), f"seed {seed}"
    # The broken records are given up, and what stood behind them is folded after all: no event comes for it.
    quarantine_redrive.drop(session, silver, Choice(error_class="envelope"))
    quarantine_redrive.redrive(session, silver, Choice())
    history.run(session, step)
    fit = [one for one in happened if not one.broken]
    assert told(step.path) == sorted(Oracle(of_v).tell(fit), key=str), f"seed {seed}"
    assert history.run(session, step).version is None
    proven(session, step, silver)


@pytest.mark.all
def test_no_bronze_of_old_is_read_where_nothing_is_late(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(session, tmp_path)
    spec = replace(lake.spec("t", COLUMNS), path=str(tmp_path / "history"))
    lake.put("t", sent(0, 0, 1, "a", "x", "c"), sent(1, 1, 2, "a", "x", "c"), sent(2, 2, 3, "a", "x", "c"))
    lake.append(lake.all_of("t"))
    history.run(session, spec)
    lake.put("t", sent(3, 3, 1, "b", GAP, "u"), sent(4, 4, 2, None, None, "d"), sent(5, 5, 0, None, None, "t"))
    lake.put("t", sent(6, 6, 2, "c", "z", "c"))
    lake.append(lake.all_of("t"))

    def refused(*_: object) -> None:
        raise AssertionError("all of bronze was read")

    with monkeypatch.context() as patch:
        patch.setattr("spark.silver.keyed_batch.table_events", refused)
        result = history.run(session, spec)
    assert result.detail["refolded_keys"] == 0
    found = {(r["id"], r["v"], r["note"], place(r["_valid_from"]), place(r["_valid_to"])) for r in rows(spec.path)}
    assert found == {
        (1, "a", "x", 0, 3),
        (1, "b", "x", 3, 5),
        (2, "a", "x", 1, 4),
        (2, "c", "z", 6, None),
        (3, "a", "x", 2, 5),
    }
