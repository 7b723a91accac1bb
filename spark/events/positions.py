"""What the positions of all sources share, and what a kind of source must say of itself.

Positions are fixed-width parts, so that comparing texts compares every part as a number:

| 0000.<where in the source's log>.1.<order within that>.0000000000000010
| epoch                            |                     offset in the topic partition
|                                  kind: 0 snapshot row, 1 streamed change

A part is hexadecimal or decimal, lower case, padded with zeros to the width that its source fixes; no part but the
kind is one character wide. Snapshot rows stand below all changes streamed after them and above all earlier ones.
`epoch` comes first, for logs that start again (restore, failover, recreated topic); the offset decides what the log
does not. Between the two stands the *place*: equal for an event and its replay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as sf

SNAPSHOT, STREAMED = "0", "1"
EPOCH_WIDTH, NUMBER_WIDTH = 4, 16


def epoch_prefix(epoch: int) -> str:
    """What all positions of an epoch begin with."""
    return f"{epoch:04x}."


def without_offset(position: Column) -> Column:
    """The event's place in the source's log: equal for an event and its replay."""
    return sf.substring(position, sf.lit(1), sf.length(position) - (1 + NUMBER_WIDTH))


def snapshot_of(position: Column) -> Column:
    """The part that all rows of one snapshot share: up to and with the kind."""
    return sf.nullif(sf.regexp_extract(position, r"^.*?\.[01]\.", 0), sf.lit(""))


def first_load(*widths: int) -> str:
    """The place of a snapshot's row that has none in its source's log, of parts as wide as these: below all changes."""
    return ".".join([*("0" * width for width in widths), SNAPSHOT])


def position(*, epoch: Column, place: Column, offset: Column) -> Column:
    """Null where the place is: an event without a place in the log must not get an invented one."""
    return join_parts(hexadecimal(epoch, EPOCH_WIDTH), place, hexadecimal(offset, NUMBER_WIDTH))


def kind(op: Column) -> Column:
    """Snapshot row or streamed change."""
    return sf.when(op == "r", SNAPSHOT).otherwise(STREAMED)


def join_parts(*parts: Column) -> Column:
    """The parts with dots between them; null where any is null."""
    dot = sf.lit(".")
    return sf.concat(*[piece for column in parts for piece in (dot, column)][1:])


def hexadecimal(number: Column, width: int) -> Column:
    """A whole number of up to 64 bits."""
    return sf.lpad(sf.lower(sf.hex(number.cast("bigint"))), width, "0")


def decimal(text: Column, width: int) -> Column:
    """A whole number of any length from its decimal digits; null for other text or more digits than fit."""
    digits = sf.regexp_extract(sf.trim(text.cast("string")), r"^0*(\d{1," + str(width) + r"})$", 1)
    return sf.lpad(sf.nullif(digits, sf.lit("")), width, "0")


def segments(text: Column, *widths: int) -> Column:
    """Hexadecimal numbers with separators, such as `0000002a:000004d0:0003`, each padded to its width; null for others."""
    pattern = r"^\W*(?:0[xX])?" + r"\W".join(rf"0*([0-9a-fA-F]{{1,{width}}})" for width in widths) + r"\W*$"
    parts = [sf.lower(sf.nullif(sf.regexp_extract(text, pattern, i + 1), sf.lit(""))) for i in range(len(widths))]
    return sf.concat(*[sf.lpad(digits, width, "0") for digits, width in zip(parts, widths, strict=True)])


Field = Callable[[str], Column]
"""A field of the event's source block by its name, in the type that the connector declares for it."""


class Place(NamedTuple):
    """Where an event stands in its source's log: `<anchor>.<kind>.<order within it>`, null where that is unknown.

    PostgreSQL has no `text` but `last_commit` and `lsn`: its places follow from these two, and some are final only once the
    whole batch is known (spark.events.postgresql_positions).
    """

    text: Column | None = None
    last_commit: Column | None = None
    lsn: Column | None = None


@dataclass(frozen=True)
class Connector:
    """A kind of source.

    `source` lists the fields that are read from Debezium's source block, with their Spark types; `needs` names for people those
    without which an event has no position. `write` is what
    identifies one write of the source among all of its changes, whatever partition tells of it. `null_may_mean_unchanged`: a
    NULL is also sent for a value that an update has not touched.

    `first_load` is the place of a snapshot's rows where the source gives them none, below that of every change: zeros and the
    kind, which a place of that source ends with. Rows of a later snapshot get theirs from what came before them
    (spark.bronze.batch_records). `places`: where, counted from 1, and how wide the parts of a position are that are places of
    the log,
    none of which lies beyond its end; none where a log's end cannot be told. `moment`: the milliseconds of a change, from its
    place; None where a place does not tell.
    """

    name: str
    source: Mapping[str, str]
    needs: str
    place: Callable[[Field, Column], Place]
    tx_id: Callable[[Field], Column]
    write: Callable[[Column], Column] = without_offset
    null_may_mean_unchanged: bool = False
    first_load: str = ""
    places: tuple[tuple[int, int], ...] = ()
    moment: Callable[[Column], Column] | None = None
