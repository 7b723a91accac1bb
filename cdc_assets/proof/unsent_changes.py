"""Changes of rows for which a source sends no event, remembered until a comparison finds all rows of their table equal
behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone

from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.clients.databases.binlog_events import GAPS
from cdc_assets.clients.databases.binlog_unsent import SAME_PLACE, UnsentChange
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.proof.comparison_result import TableResult
from cdc_assets.registry import names
from cdc_assets.registry.errors import CdcAssetsError
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.source_state import SourceState
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity

TimeAt = Callable[[BinlogPosition], "int | None"]
"""When the event at a place was written, in seconds since 1970."""


@dataclass(frozen=True)
class LogChange:
    """One change: its place in the log, what it is, its statement, and when it was written (text, UTC), once that is known."""

    file: str
    position: int
    kind: str
    statement: str
    written: str | None = None

    @classmethod
    def of(cls, change: UnsentChange) -> LogChange:
        """As it is remembered, without its time."""
        return cls(change.at.file, change.at.position, change.kind, change.statement)

    @property
    def at(self) -> BinlogPosition:
        """The place of the log at which the event begins."""
        return BinlogPosition.of(self.file, self.position)

    @property
    def text(self) -> str:
        """For people, in one line."""
        when = f" ({self.written})" if self.written else ""
        return f"{self.at.text}{when}, {self.kind}" + (f": {self.statement}" if self.statement else "")

    def with_time(self, time_at: TimeAt) -> LogChange:
        """The same with its time; empty where nothing is at its place any more."""
        if self.written is not None:
            return self
        seconds = time_at(self.at)
        written = "" if seconds is None else f"{datetime.fromtimestamp(seconds, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
        return replace(self, written=written)


@dataclass(frozen=True)
class UnsentOfTable:
    """What was found of one table: how many changes, the first one and the last one.

    `log_restarted`: the binlog began anew since, so every place of it is behind them.
    """

    count: int
    first: LogChange
    last: LogChange
    log_restarted: bool = False

    def with_change(self, change: LogChange) -> UnsentOfTable:
        """With one more. One that lies before the last is shown first: a connector may have stopped at it."""
        if (change.file, change.position) in [(c.file, c.position) for c in (self.first, self.last)]:
            return self
        if change.at > self.last.at or self.log_restarted:
            return UnsentOfTable(self.count + 1, self.first, change)
        return UnsentOfTable(self.count + 1, change, self.last)

    def with_times(self, time_at: TimeAt) -> UnsentOfTable:
        """With the times of what is shown."""
        return replace(self, first=self.first.with_time(time_at), last=self.last.with_time(time_at))

    def lies_before(self, at: BinlogPosition) -> bool:
        """Whether a place of the log lies behind all of them."""
        return self.log_restarted or at > self.last.at


@dataclass(frozen=True)
class UnsentChanges:
    """What is remembered of a source, by its tables' names, and up to where its log was read; `unread` is in words.

    Every count agrees with such a change missing, and the log tells of it once, so what was found is kept over restarts:

        the section `unsent changes` of what this machine remembers of the source
            {"read_to": [file, position], "tables": {"<table>": {"count": 2, "first": {…}, "last": {…}}}}

    Each look goes on where the last one ended. A comparison of the whole table that ends *equal*, at a place behind its last
    such change, takes the table out (`forget_compared`): the check `reconciled`, or `cdc reconcile`.
    """

    tables: dict[str, UnsentOfTable] = field(default_factory=dict)
    read_to: BinlogPosition | None = None
    unread: str = ""

    def messages(self, source: CapturedSource) -> dict[str, str]:
        """One text for each table that is declared, with the commands that mend it."""
        return {
            table.name: _message(source, names.table_name(table), self.tables[table.name])
            for table in source.tables
            if table.name in self.tables
        }


def _message(source: CapturedSource, short: str, unsent: UnsentOfTable) -> str:
    name, kinds = f"{source.name}.{short}", (unsent.first.kind, unsent.last.kind)
    places = unsent.first.text + (f"; the last at {unsent.last.text}" if unsent.count > 1 else "")
    if SAME_PLACE in kinds:
        connector = names.connector_name(source)
        return (
            f"{quantity(unsent.count, 'transaction')} whose row events have one place (binlog_transaction_compression), so that "
            f"rows may be missing, since it has no key: {places}. Red until all its rows were compared behind that place: "
            f"cdc reconcile {name}. Where rows are missing, have the source read again while nobody writes: "
            f"cdc stop {connector}; cdc offsets reset {connector}; cdc resume {connector}"
        )
    message = f"{quantity(unsent.count, 'change')} of its rows that Debezium sends no event for: {places}"
    if GAPS in kinds:
        return (
            f"{message}. Its connector cannot pass such an image. To go past it, and read the table again: cdc repair model "
            f"{source.name} {short}. Red until all its rows were compared behind that place: cdc reconcile {name}"
        )
    return (
        f"{message}. Red until all its rows were compared behind that place: cdc reconcile --heal {name} (rows that "
        f"the source has no more: cdc repair bronze {source.name} {short} --anew, then cdc reconcile {name})"
    )


def read_unsent_changes(source: str) -> UnsentChanges:
    """What was found by now.

    Raises:
        CdcAssetsError: the file cannot be read; names it.
    """
    try:
        data = _state(source).read()
        if data is None:
            return UnsentChanges()
        tables = {
            name: UnsentOfTable(
                **{**table_data, "first": LogChange(**table_data["first"]), "last": LogChange(**table_data["last"])}
            )
            for name, table_data in data["tables"].items()
        }
        return UnsentChanges(tables, BinlogPosition.of(*data["read_to"]) if data["read_to"] else None)
    except (ValueError, KeyError, TypeError) as error:
        # Taken for empty, it would turn a red check green.
        raise CdcAssetsError(
            f"{_state(source).file} has no changes that can be read: {error}; remove it, and compare every row: cdc reconcile "
            f"{source}"
        ) from error


def remember(
    source: str, changes: Iterable[tuple[str, UnsentChange]], time_at: TimeAt, *, read_to: BinlogPosition, restarted: bool = False
) -> UnsentChanges:
    """Add changes of tables, by name, in the order of the log; what is remembered now. `restarted`: the log began anew."""
    with _changing(source) as kept:
        tables = {name: replace(unsent, log_restarted=True) if restarted else unsent for name, unsent in kept.tables.items()}
        for name, change in changes:
            one = LogChange.of(change)
            tables[name] = tables[name].with_change(one) if name in tables else UnsentOfTable(1, one, one)
        now = UnsentChanges({name: unsent.with_times(time_at) for name, unsent in tables.items()}, read_to)
        if now != kept:
            _write(source, now)
        return now


def forget_compared(source: str, places: Mapping[str, str]) -> None:
    """Take out the tables (names as in the database) whose rows were found equal, all of them, at these places of the log."""
    if not read_unsent_changes(source).tables:
        return
    with _changing(source) as kept:
        left = {
            name: unsent
            for name, unsent in kept.tables.items()
            if (at := _place(places.get(name, ""))) is None or not unsent.lies_before(at)
        }
        if left != kept.tables:
            _write(source, UnsentChanges(left, kept.read_to))


@contextmanager
def _changing(source: str) -> Iterator[UnsentChanges]:
    with table_lock("unsent", source, "changes", deadline=60.0):
        yield read_unsent_changes(source)


def _write(source: str, now: UnsentChanges) -> None:
    read_to = [now.read_to.file, now.read_to.position] if now.read_to else None
    _state(source).write({"read_to": read_to, "tables": {name: asdict(unsent) for name, unsent in now.tables.items()}})


def _place(text: str) -> BinlogPosition | None:
    """A place as comparisons tell it; None of a log that is no binlog."""
    file, _, position = text.rpartition(":")
    if not position.isdecimal() or not file.rpartition(".")[2].isdecimal():
        return None
    return BinlogPosition.of(file, position)


def _state(source: str) -> SourceState:
    return SourceState(source, "unsent changes")


_WHOLE = "1/1"


def forget_equal_tables(source: BaseSource, tables: Sequence[Table], results: Mapping[str, TableResult]) -> None:
    """Nothing of these tables is missing up to the places where all their rows were found equal; results by short name."""
    results_of = {table.name: results.get(names.table_name(table)) for table in tables}
    places = {name: result.lsn for name, result in results_of.items() if result and result.equal and result.share == _WHOLE}
    if places:
        forget_compared(source.name, places)
