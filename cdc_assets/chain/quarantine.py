"""Records that silver could not fold, read from the Delta files alone; and those that a person has given up (`cdc
quarantine drop`), a decision that no record and no other table tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cdc_assets.clients.delta_log import bronze_committed, open_table, silver_committed
from cdc_assets.clients.delta_rows import open_dataset
from cdc_assets.clients.platform import Platform
from cdc_assets.registry import names
from cdc_assets.registry.display_text import HiddenValues
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets.registry.table_declaration import Table
from spark.specs import SilverSpec

FACTS = (
    "topic",
    "partition",
    "offset",
    "position",
    "op",
    "row_key",
    "error_class",
    "column",
    "message",
    "schema_id",
    "first_seen",
    "superseded_by",
)
MARKS = ("epoch", "redriven_at", "dropped_at")
RAW = ("key", "value")
# Of one process: equal values look equal in one answer.
_VALUES = HiddenValues()


@dataclass(frozen=True)
class QuarantinedRecord:
    """One record; `facts` are the quarantine's columns, with its bytes only where they were asked for."""

    source: str
    table: str
    facts: dict[str, Any]

    @property
    def state(self) -> str:
        """open, redriven, dropped, or read again: an epoch has begun since.

        An epoch begins with the whole table (cdc repair model, cdc repair bronze), so nothing rests on the record any more.
        """
        if self.facts["dropped_at"] is not None:
            return "dropped"
        if self.facts["redriven_at"] is not None:
            return "redriven"
        later = self.facts["superseded_by"]
        return "read again" if later is not None and int(later.partition(".")[0], 16) > self.facts["epoch"] else "open"

    def hidden(self, table: Table) -> QuarantinedRecord:
        """For people: what may hold a value of a sensitive column is a hash. The message of another column is shown as it is."""
        if not table.sensitive:
            return self
        facts, column = dict(self.facts), self.facts["column"]
        if column is None or column in table.sensitive:
            facts["message"] = f"(sensitive: {_VALUES.hide(facts['message'])})" if facts["message"] is not None else None
        if not table.keys or set(table.keys) & set(table.sensitive):
            facts["row_key"] = _VALUES.hide(facts["row_key"])
        for name in RAW:
            if facts.get(name) is not None:
                facts[name] = str(_VALUES.hide(facts[name])).encode()
        return replace(self, facts=facts)

    def to_json(self, *, raw: bool = False) -> dict[str, Any]:
        """For programs; `raw` adds key and value as text (bytes that are no UTF-8 are escaped)."""
        shown: dict[str, Any] = {"source": self.source, "table": self.table, "state": self.state}
        for name in FACTS:
            value = self.facts[name]
            shown[name] = value.isoformat() if isinstance(value, datetime) else value
        if raw:
            for name in RAW:
                data = self.facts[name]
                shown[name] = None if data is None else data.decode(errors="backslashreplace")
        return shown


@dataclass(frozen=True)
class QuarantineFilter:
    """Which records are wanted; None: whatever the value is. Open ones unless `every_state`."""

    error_class: str | None = None
    partition: int | None = None
    offset: int | None = None
    every_state: bool = False

    def matches(self, record: QuarantinedRecord) -> bool:
        """Whether the record is one of them."""
        filters = {"error_class": self.error_class, "partition": self.partition, "offset": self.offset}
        same = all(value is None or record.facts[name] == value for name, value in filters.items())
        return same and (self.every_state or record.state == "open")


ALL_OPEN = QuarantineFilter()


def quarantine_records(
    lake: str, source: BaseSource, table: Table, wanted: QuarantineFilter = ALL_OPEN, *, raw: bool = False
) -> list[QuarantinedRecord]:
    """The table's records in quarantine in the order of their offsets.

    Their bytes are read only with `raw`: a topic of poison holds more of them than a check should load.
    """
    rows = _rows(names.quarantine_path(lake, source, table), (*FACTS, *MARKS, *(RAW if raw else ())))
    records = [QuarantinedRecord(source.name, names.table_name(table), row) for row in rows]
    return sorted(filter(wanted.matches, records), key=lambda h: (h.facts["topic"], h.facts["partition"], h.facts["offset"]))


def open_counts(lake: str, source: BaseSource) -> dict[str, int]:
    """How many records are in quarantine, of each table that has any.

    Silver does not have what they say.
    """
    counts = {names.table_name(table): len(quarantine_records(lake, source, table)) for table in source.tables}
    return {table: count for table, count in counts.items() if count}


def _rows(path: str, columns: Sequence[str]) -> Sequence[dict[str, Any]]:
    table = open_table(path)
    if table is None:
        return []
    rows: list[dict[str, Any]] = open_dataset(table, path).to_table(columns=[*columns]).to_pylist()
    return rows


GivenUp = Mapping[str, Mapping[str, list[list[int]]]]
"""By topic and partition the runs of offsets, first and last."""


def records_given_up(lake: str, source: BaseSource) -> dict[str, GivenUp]:
    """Of each table that has any."""
    given_up: dict[str, GivenUp] = {}
    for table in source.tables:
        rows = _rows(names.quarantine_path(lake, source, table), ("topic", "partition", "offset", "dropped_at"))
        dropped = [(row["topic"], row["partition"], row["offset"]) for row in rows if row["dropped_at"] is not None]
        if dropped:
            given_up[names.table_name(table)] = _runs(dropped)
    return given_up


def give_up_again(platform: Platform, spec: SilverSpec, history: SilverSpec | None, decided: GivenUp) -> int:
    """Behind a fold that has put them into quarantine anew: they are given up, and what waited for them is folded.

    How many were found.
    """
    from spark.silver import quarantine_redrive

    runs = {topic: {int(p): [(first, last) for first, last in at] for p, at in parts.items()} for topic, parts in decided.items()}
    count: int = platform.spark().run(lambda session, _: quarantine_redrive.drop_runs(session, spec, runs), spec)
    if count:
        platform.spark().run(lambda session, _: quarantine_redrive.redrive(session, spec, quarantine_redrive.Choice()), spec)
        if history is not None:
            fold_history_again(platform, history, spec.path)
    return count


def fold_history_again(platform: Platform, spec: SilverSpec, silver: str) -> None:
    """The history heeds what was decided, up to where silver is: nothing else asks for a run until new events come."""
    from spark.bronze.change_log import is_all_folded
    from spark.silver import history_job as history

    folded, committed = silver_committed(silver), bronze_committed(spec.bronze_path)
    if folded is not None and committed is not None:
        newest = is_all_folded(committed, folded, spec.table)
        platform.spark().run(history.run, replace(spec, folded_limit=committed.version if newest else folded.bronze_version))


def _runs(places: list[tuple[str, int, int]]) -> dict[str, dict[str, Any]]:
    runs_of: dict[str, dict[str, Any]] = {}
    for topic, partition, offset in sorted(places):
        runs = runs_of.setdefault(topic, {}).setdefault(str(partition), [])
        if runs and offset <= runs[-1][1] + 1:
            runs[-1][1] = max(runs[-1][1], offset)
        else:
            runs.append([offset, offset])
    return runs_of
