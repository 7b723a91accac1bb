"""What tasks have made of a small lake step by step, and what Spark makes of the same at once: equal, read by delta-rs.

A table that no task has written is left out: there is one writer of it. The folder `cdc_assets_tests/spark` compares each lake at
the end of its test; a lake that is written elsewhere, or is damaged by hand later, is compared where the test calls
`compare_writers`.
"""

from __future__ import annotations

import tempfile
import uuid
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_assets_tests.support.lake.delta_reader import read
from cdc_assets_tests.support.lake.lake import WRITTEN, Lake, kafka_records
from cdc_assets_tests.support.lake.steps import FoldedTable, Log, bronze_version
from spark.specs import KAFKA_SCHEMA, META, BronzeSpec, SilverSpec, TopicRange
from spark.table.delta_rs import is_delta, open_delta

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Rows = Counter[tuple[str, ...]]
OF_THE_RUN = ("first_seen", "built_on", "redriven_at", "dropped_at", "superseded_by")
"""Of a record in quarantine: when it came there, upon which version of silver, and what became of it since."""
OPEN = "redriven_at IS NULL AND dropped_at IS NULL AND superseded_by IS NULL"
"""Of the others, a fold at once has never set aside what waited for a later batch."""


def compare_written() -> None:
    """All lakes that were written since this was called last, but those that say why not."""
    while WRITTEN:
        lake = next(iter(WRITTEN.values()))
        if lake.not_compared:
            WRITTEN.pop(id(lake.steps))
        else:
            compare_writers(lake)


def compare_writers(lake: Lake) -> None:
    """Raises an AssertionError that names the table and some rows which only one of the two has."""
    WRITTEN.pop(id(lake.steps), None)
    if lake.appended_by_tasks:
        _compare_bronze(lake, _folder(lake))
    for table in lake.steps.tables.values():
        if table.by_tasks:
            _compare_table(lake, table, _folder(lake))


def _folder(lake: Lake) -> Path:
    return Path(tempfile.mkdtemp(prefix="by_spark_", dir=lake.root))


def _compare_bronze(lake: Lake, folder: Path) -> None:
    from spark.bronze import append_job as bronze

    path = str(folder / "bronze")
    for topics in lake.steps.appended:
        log = {topic.range.table: {p: [*own.values()] for p, own in topic.records.items()} for topic in topics.values()}
        spec = BronzeSpec(path, "none", tuple(topic.range for topic in topics.values()), uuid.uuid4().hex)
        bronze.append(lake.session, spec, partial(_read, lake, log))
    _refuse_difference(lake.bronze_path, path)


def _read(lake: Lake, log: Log, asked: Sequence[TopicRange]) -> DataFrame:
    return lake.session.createDataFrame(kafka_records(asked, log), KAFKA_SCHEMA)


def _compare_table(lake: Lake, table: FoldedTable, folder: Path) -> None:
    """A fold for each of the rules by which the table was folded, one after the other: as a rule there is one."""
    from spark.silver import fold_job as silver

    spec = table.spec
    for rules in (*table.earlier, replace(spec, folded_limit=bronze_version(spec.path))):
        again = _moved(rules, folder)
        silver.run(lake.session, again)
    # A delete takes any one of rows that are equal: which one, with its place, is the batch's.
    _refuse_difference(spec.path, again.path, without=META if spec.multiset else ())
    if is_delta(spec.quarantine) or is_delta(again.quarantine):
        _compare_quarantines(spec, again)
    if is_delta(f"{spec.path}__history"):
        _compare_histories(lake, table, folder)


def _moved(spec: SilverSpec, folder: Path) -> SilverSpec:
    """The same rules for a table elsewhere."""
    return replace(spec, path=str(folder / "silver"), quarantine_path=str(folder / "quarantine"))


def _compare_quarantines(spec: SilverSpec, again: SilverSpec) -> None:
    ours, theirs = (_rows(one.quarantine, OF_THE_RUN, OPEN) if is_delta(one.quarantine) else Counter() for one in (spec, again))
    _refuse_other_rows(spec.quarantine, ours, theirs)


def _compare_histories(lake: Lake, table: FoldedTable, folder: Path) -> None:
    """By the rules of silver: the history of a small lake has no others."""
    from spark.silver import history_job as history

    path, again = f"{table.spec.path}__history", str(folder / "history")
    for rules in (*table.earlier, replace(table.spec, folded_limit=bronze_version(path))):
        history.run(lake.session, replace(_moved(rules, folder), path=again))
    _refuse_difference(path, again)


def _refuse_difference(path: str, again: str, *, without: Collection[str] = ()) -> None:
    ours, theirs = _columns(path), _columns(again)
    assert ours == theirs, f"{path} has the columns {ours}, by Spark at once {theirs}"
    _refuse_other_rows(path, _rows(path, without), _rows(again, without))


def _refuse_other_rows(path: str, ours: Rows, theirs: Rows) -> None:
    only_ours, only_theirs = ([*rest.elements()][:3] for rest in (ours - theirs, theirs - ours))
    assert ours == theirs, f"{path}: only by the steps {only_ours}, only by Spark at once {only_theirs}"


def _columns(path: str) -> list[tuple[str, str]]:
    return [(column.name, str(column.type)) for column in open_delta(path).schema().fields]


def _rows(path: str, without: Collection[str], condition: str = "true") -> Rows:
    """As texts: a NaN is equal to another, and 0.0 is not to -0.0."""
    found: list[dict[str, Any]] = read(path, condition)
    return Counter(tuple(f"{name}={value!r}" for name, value in row.items() if name not in without) for row in found)
