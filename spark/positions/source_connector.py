"""What a kind of source must say of itself, so that an envelope can read its positions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import Column

from spark.positions.layout import without_offset

Field = Callable[[str], Column]
"""A field of the event's source block by its name, in the type that the connector declares for it."""


class Place(NamedTuple):
    """Where an event stands in its source's log: `<anchor>.<kind>.<order within it>`, null where that is unknown.

    PostgreSQL has no `text` but `last_commit` and `lsn`: its places follow from these two, and some are final only once the
    whole batch is known (spark.positions.postgresql).
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
    (spark.bronze.reloads). `places`: where, counted from 1, and how wide the parts of a position are that are places of the log,
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
