"""The lease of a table in an object store: one holder at a time, numbers that only grow, and what a dead holder leaves."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed

import pytest

from spark.errors import CommitUncertainError, LeftToSparkError, TableHeldError
from spark.silver import quarantine_redrive
from spark.specs import Column, SilverSpec
from spark.table import write_lease
from spark.table import write_lease as delta_lease
from spark.table.delta_table import table_of
from spark.table.table_folder import open_folder
from spark.table.write_lease import FOLDER, SPARK, TASK, hold, take

KILLED = """
import os, sys
from spark.table.write_lease import hold
with hold(sys.argv[1], sys.argv[2], seconds=0):
    print("held", flush=True)
    os.kill(os.getpid(), 9)
"""


def test_one_writes_at_a_time(object_lake: str) -> None:
    path, inside, most = f"{object_lake}/t", 0, 0
    turn = threading.Lock()

    def write(number: int) -> None:
        nonlocal inside, most
        with hold(path, (SPARK, TASK)[number % 2], seconds=60):
            with turn:
                inside += 1
                most = max(most, inside)
            time.sleep(0.05)
            with turn:
                inside -= 1

    with ThreadPoolExecutor(4) as pool:
        # In the order in which they end: of two errors the first is the cause.
        for done in as_completed([pool.submit(write, number) for number in range(8)]):
            done.result()
    assert most == 1
    # A claim and its end for each, and older ones are gone.
    [last] = open_folder(path).names(FOLDER)
    assert int(last.partition(".")[0]) >= 16


def test_who_comes_second_is_told_who_writes(object_lake: str) -> None:
    path = f"{object_lake}/t"
    with hold(path, SPARK, seconds=0):
        with pytest.raises(TableHeldError, match=r"is being written by spark \("):
            take(path, SPARK, seconds=0.3)
        with pytest.raises(LeftToSparkError, match="is being written by spark"), delta_lease.lend_to_task(path, seconds=0):
            pass
    with delta_lease.lend_to_task(path, seconds=0):
        pass


def test_records_are_not_given_up_while_somebody_folds_their_table(object_lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cdc quarantine drop`: it is refused before Spark is asked for anything, so it needs none here."""
    monkeypatch.setattr(delta_lease, "_SPARK_WAITS", 0.3)
    silver = f"{object_lake}/silver/shop/orders"
    spec = SilverSpec("shop", "orders", f"{object_lake}/bronze/shop", silver, (Column("id", "integer", False),), ("id",))
    with hold(silver, TASK, seconds=0), pytest.raises(TableHeldError, match="is being written by task"):
        quarantine_redrive.drop(None, spec, quarantine_redrive.Choice())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [SPARK, TASK])
def test_what_a_killed_writer_leaves_ends_by_itself(object_lake: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{object_lake}/t"
    killed = subprocess.run([sys.executable, "-c", KILLED, path, kind], capture_output=True, text=True, check=False, timeout=60)
    assert (killed.stdout, killed.returncode) == ("held\n", -9)
    with pytest.raises(TableHeldError, match="is being written by"):
        take(path, TASK, seconds=0.3)
    monkeypatch.setattr(write_lease, "TWO_MINUTES", 1.0)
    with hold(path, TASK, seconds=10):
        pass


def test_it_is_renewed_for_as_long_as_it_is_held(object_lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_lease, "RENEW_SECONDS", 0.2)
    monkeypatch.setattr(write_lease, "TWO_MINUTES", 2.0)
    path = f"{object_lake}/t"
    with hold(path, SPARK, seconds=0), pytest.raises(TableHeldError, match="is being written by"):
        take(path, TASK, seconds=4)


def test_a_put_that_is_on_its_way_is_no_claim(object_lake: str) -> None:
    """As s3proxy lists it: whoever had taken the lease took it for lost, and left a claim that kept all out for two minutes."""
    path = f"{object_lake}/t"
    open_folder(path).put(f"{FOLDER}/{1:020}.json-17de2386", b"")
    with hold(path, SPARK, seconds=0):
        pass
    with hold(path, TASK, seconds=0):
        pass


def test_who_has_given_it_back_does_not_renew_it(object_lake: str) -> None:
    """Its renewal may be waiting for its turn just then: a claim behind the end would keep all others out for two minutes."""
    path = f"{object_lake}/t"
    lease = take(path, SPARK, seconds=0)
    with write_lease.keep(lease):
        pass
    assert not lease.renew_once()
    with hold(path, TASK, seconds=0):
        pass


def test_a_writer_that_slept_too_long_commits_nothing(object_lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{object_lake}/t"
    monkeypatch.setattr(write_lease, "TWO_MINUTES", 1.0)
    with hold(path, TASK, seconds=0):
        time.sleep(2.5)
        other = take(path, TASK, seconds=10)
        with pytest.raises(TableHeldError, match="another writer took the table"):
            table_of(path).put(0, [{"commitInfo": {}}])
    assert open_folder(path).names("_delta_log") == []
    other.refuse_lost()


def test_spark_says_that_it_was_overtaken(object_lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{object_lake}/t"
    monkeypatch.setattr(write_lease, "TWO_MINUTES", 1.0)
    with pytest.raises(TableHeldError, match="cdc reconcile"), hold(path, SPARK, seconds=0):
        _sleep_and_be_overtaken(path)


def _sleep_and_be_overtaken(path: str) -> None:
    time.sleep(2.5)
    take(path, TASK, seconds=10)


def test_an_old_look_at_the_row_takes_nothing(object_lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a look and a put others took it and gave it back, and its old objects are gone."""
    path = f"{object_lake}/t"
    with hold(path, TASK, seconds=0):
        pass
    looks = [write_lease._newest(open_folder(path))]  # type: ignore[arg-type] # it is a bucket's
    for _ in range(3):
        with hold(path, TASK, seconds=0):
            pass
    real = write_lease._newest
    monkeypatch.setattr(write_lease, "_newest", lambda folder: looks.pop() if looks else real(folder))
    assert take(path, TASK, seconds=10).number > 8


@pytest.mark.parametrize(
    ("kind", "error", "is_given_back"),
    [
        (SPARK, ValueError("the server may go on"), False),
        (SPARK, LeftToSparkError("said by us"), True),
        (TASK, ValueError("in our own process"), True),
        (TASK, CommitUncertainError("nobody says"), False),
    ],
)
def test_an_error_leaves_the_claim_where_a_write_may_still_come(
    object_lake: str, kind: str, error: Exception, *, is_given_back: bool
) -> None:
    path = f"{object_lake}/t"
    with pytest.raises(type(error)), hold(path, kind, seconds=0):
        raise error
    if is_given_back:
        with hold(path, TASK, seconds=0):
            pass
    else:
        with pytest.raises(TableHeldError, match="is being written by"):
            take(path, TASK, seconds=0.3)
