"""Debezium's model of a table against the server's catalogue, and rows that may have been read by a wrong one.

The catalogue is of now: it tells whether the newest model is right. What an older model has as the newest has it, or as the one
before it had it, is right too. What a statement brought and a later one took back was never seen beside the server's own.
Of the events between two places of the log it is counted, without Spark, how many silver has folded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cdc_assets.clients import delta_rows
from cdc_assets.clients.databases.binlog import BinlogPosition
from cdc_assets.clients.databases.catalogue import CatalogueColumn, CatalogueTable
from cdc_assets.clients.delta_log import bronze_committed, open_table, silver_positions
from cdc_assets.clients.schema_history import ModelColumn, TableModel, is_json_in_text, reading_of_catalogue, reading_of_model
from spark.errors import quantity
from spark.table.commit_metadata import Folded
from spark.table.identifiers import text_literal

_GENERATED = "generated"


@dataclass(frozen=True)
class ModelDifference:
    """A model that is not the server's table: in what, since which statement, and both in words."""

    found: tuple[str, ...]
    since: str
    model: str
    server: str

    @property
    def text(self) -> str:
        """For people, without the way to mend it."""
        return (
            f"Debezium reads its rows by a model that is not the server's table, since {self.since}: {'; '.join(self.found)}. "
            f"Model: {self.model}. Server: {self.server}"
        )


def model_difference(model: TableModel, table: CatalogueTable, signed: Collection[str] = ()) -> ModelDifference | None:
    """In what a model would give other values than the table has; None: in nothing. `signed`: see `reading_of_model`."""
    columns = tuple(_differences(model, table, signed))
    server = ", ".join(map(_server_text, table.columns))
    return ModelDifference(columns, model.since, model.text, server) if columns else None


def _differences(model: TableModel, table: CatalogueTable, signed: Collection[str]) -> Iterator[str]:
    modelled, there = [c.name for c in model.columns], [c.name for c in table.columns]
    if len(modelled) != len(there):
        yield f"{quantity(len(modelled), 'column')} in the model, {quantity(len(there), 'column')} on the server"
    elif modelled != there:
        at = next(n for n, names in enumerate(zip(modelled, there, strict=True)) if names[0] != names[1])
        yield f"column {at + 1} is {modelled[at]} in the model, {there[at]} on the server"
    columns = {column.name: column for column in table.columns}
    for column in model.columns:
        if column.name in columns:
            yield from _of_column(column, columns[column.name], signed)


def _of_column(column: ModelColumn, there: CatalogueColumn, signed: Collection[str]) -> Iterator[str]:
    modelled, server = reading_of_model(column, signed), reading_of_catalogue(there)
    # The catalogue's character set of a generated column is not asked for.
    is_text = there.kind == _GENERATED and modelled.startswith("text ") and server.startswith("text ")
    if modelled != server and not is_text and not is_json_in_text(modelled, server):
        yield f"{column.name} is read as {modelled} (of {column.type}), and is {server}"
    if there.nullable and not column.nullable:
        yield f"{column.name} is NOT NULL in the model, and takes NULL"


def _server_text(column: CatalogueColumn) -> str:
    charset = "" if column.kind == _GENERATED else column.kind
    return f"{column.name} {column.type}" + (f" {charset}" if charset else "")


@dataclass(frozen=True)
class DoubtfulModel:
    """A model that nobody can compare any more, and the one that followed it.

    `is_corrected`: the server's definition followed, and no statement was between: it was wrong at its end.

    No look has compared it with the server's catalogue, it lay between two of them, and nothing else confirms it.
    """

    model: TableModel
    after: TableModel

    @property
    def is_corrected(self) -> bool:
        """Whether the server was asked for the definition that followed."""
        return not self.after.place


@dataclass(frozen=True)
class DoubtfulRows:
    """Rows that silver has not folded, and that were read by such a model. None: nobody can count them."""

    rows: int | None
    doubt: DoubtfulModel

    @property
    def text(self) -> str:
        """For people, without the way to mend it."""
        why = "was not the server's" if self.doubt.is_corrected else "was never compared with the server's table"
        rows = "events (they cannot be counted)" if self.rows is None else quantity(self.rows, "event")
        return (
            f"{rows} that silver has not folded yet came by a model that {why}, since "
            f"{self.doubt.model.since}, before {self.doubt.after.since}. Model: {self.doubt.model.text}. "
            f"Then: {self.doubt.after.text}"
        )


def doubtful_models(models: Sequence[TableModel], signed: Collection[str] = ()) -> list[DoubtfulModel]:
    """Of a table's models, oldest first, those that neither their neighbours nor the newest confirm.

    `signed`: see `reading_of_model`.
    """
    return [
        DoubtfulModel(model, after)
        for number, (model, after) in enumerate(pairwise(models))
        if not after.place or _is_alone(model, models[number - 1] if number else None, models[-1], signed)
    ]


def _is_alone(model: TableModel, before: TableModel | None, newest: TableModel, signed: Collection[str]) -> bool:
    if before is None and not model.place:
        return False  # the server's own words
    own, newer = _names(model), _names(newest)
    is_in_other_order = [name for name in own if name in newer] != [name for name in newer if name in own]
    if is_in_other_order and (before is None or _names(before) != own):
        return True
    others = [other for other in (before, newest) if other is not None]
    there = {column.name for column in newest.columns}
    readings = [dict(_readings(other, signed)) for other in others]
    return any(
        name in there and all(reading != readings_before.get(name) for readings_before in readings)
        for name, reading in _readings(model, signed)
    )


def _names(model: TableModel) -> list[str]:
    return [column.name for column in model.columns]


def _readings(model: TableModel, signed: Collection[str]) -> Iterator[tuple[str, str]]:
    for column in model.columns:
        yield column.name, reading_of_model(column, signed)


@dataclass(frozen=True)
class RowsBetween:
    """Numbers of events in bronze."""

    folded: int = 0
    unfolded: int = 0


def rows_between(bronze: str, topic: str, folded: Folded | None, places: tuple[str, str]) -> RowsBetween | None:
    """Of the topic's newest epoch; a place is a position without its epoch, the second one is not among them.

    An epoch begins with the whole table: what lies below it is folded no more. None: delta-rs cannot count bronze's rows.
    """
    from spark.events.positions import epoch_prefix

    committed, table = bronze_committed(bronze), open_table(bronze)
    state = committed.topics.get(topic) if committed else None
    if state is None or table is None:
        return RowsBetween()
    low, high = (text_literal(epoch_prefix(state.epoch) + at) for at in places)
    within = f"topic = {text_literal(topic)} AND position >= {low} AND position < {high}"
    total = delta_rows.count_where(table, within)
    if total is None:
        return None
    folded_topic = folded.topics.get(topic) if folded else None
    if not total or folded_topic is None or folded_topic.epoch < state.epoch:
        return RowsBetween(0, total)
    behind = " OR ".join(f'(partition = {p} AND "offset" < {at})' for p, at in silver_positions(folded, topic).items()) or "FALSE"
    done = delta_rows.count_where(table, f"{within} AND ({behind})")
    return None if done is None else RowsBetween(done, total - done)


# Models that MariaDB's connector does not find again when it starts: their statements have the GTID of another server id; pure.
#
# Its schema history has a GTID beside each statement, and so has the offset from which it goes on. It takes the statements
# whose GTID is within the offset's, by domain and by server id. The offset has one GTID of each domain: that of the server id
# that wrote last. So what was altered under another `server_id` (a failover and back, SET GLOBAL server_id) is left out at a
# start, and rows are read by the model before it, or by none. https://github.com/debezium/debezium,
# BinlogHistoryRecordComparator and MariaDbGtidSet of 3.5.0 (seen with it)
_GTID = re.compile(r"(\d+)-(\d+)-(\d+)")


@dataclass(frozen=True)
class LostModel:
    """A table's newest model, its GTID, and that of the offset from which the connector goes on."""

    model: TableModel
    gtid: str
    offset: str

    @property
    def text(self) -> str:
        """For people, without the way to mend it."""
        return (
            f"Debezium loses what it knows of the table since {self.model.since} when its connector starts: that has the GTID "
            f"{self.gtid}, and the connector goes on from {self.offset}, which another server id wrote"
        )


def has_gtids(models: Sequence[TableModel]) -> bool:
    """Whether a model of the table could be lost so."""
    return bool(models) and any(_parts(gtid) for _, gtid in models[-1].written)


def lost_model(models: Sequence[TableModel], offset: Mapping[str, Any]) -> LostModel | None:
    """The newest of a table's models, where a connector that starts at this offset would find an older one in its place.

    Where it would find none, it does not start, or fails at the table's first row.
    """
    at, known = BinlogPosition.of(str(offset["file"]), int(offset["pos"])).in_positions, _parts(str(offset.get("gtids") or ""))
    if not known or not any(_is_found(model, at, known) for model in models[:-1]) or _is_found(models[-1], at, known):
        return None
    return LostModel(models[-1], models[-1].written[-1][1], str(offset["gtids"]))


def _is_found(model: TableModel, at: str, known: Mapping[tuple[str, str], int]) -> bool:
    """By one of its records. What lies behind the offset is read again; one without a GTID is older than any that has one."""
    return any(
        begins >= at or all(number <= known.get(stream, -1) for stream, number in _parts(gtid).items())
        for begins, gtid in model.written
    )


def _parts(gtids: str) -> dict[tuple[str, str], int]:
    """The last number by domain and server id; empty of MySQL's, which has all that was ever written."""
    found = [_GTID.fullmatch(part.strip()) for part in gtids.split(",")]
    return {(each[1], each[2]): int(each[3]) for each in found if each}
