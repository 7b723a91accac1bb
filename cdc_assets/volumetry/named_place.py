"""A place of a source's log that people are told, carried to the lake: whoever says where silver is needs one that has a name.

PostgreSQL, MariaDB   a marker in the log, as everywhere (log_position)
MySQL                 the same; by a row in the marker table that the source declares, where the role may not write a mark
others                by that row
kind: topics          the ends of its topics: nobody knows of anything before them
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.errors import DatabaseError, MissingAddressError, MissingSecretError, NoPlaceError
from cdc_assets.kinds import kind_of
from cdc_assets.registry.identifiers import parse_table
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.resources.kafka import Offsets
from cdc_assets.resources.rows.open import open_reader
from cdc_assets.volumetry.log_position import LogPosition, WaitLimit, carry_to_lake, position_in_lake
from cdc_assets.volumetry.marker_row import mark

if TYPE_CHECKING:
    from cdc_assets.resources.platform import Platform

_NAMELESS = ("", "none", "unknown")
_NOT_ANSWERED = (DatabaseError, MissingAddressError, MissingSecretError)


def carry_named(
    platform: Platform, source: BaseSource, *, deadline: float, say: Callable[[str], None] = lambda _: None
) -> LogPosition:
    """Wait until everything committed in the source before the call is readable in the lake's cluster; its place has a name.

    `deadline` in seconds. `say` is told what stands in the way.

    Raises:
        NoPlaceError: no place of the source's log can be named, so nothing was waited for.
        CaughtUpTimeoutError: naming the link that did not follow in time.
    """
    captured = source.captured
    if captured is None:
        position = carry_to_lake(platform, source, deadline=deadline, say=say)
        position = replace(position, lsn=offsets_text(position.offsets))
    else:
        position = _carry_captured(platform, captured, deadline, say)
    if position.lsn in _NAMELESS:
        raise NoPlaceError(
            source.name, f"none of its topics is there yet: {', '.join(names.topic(source, t) for t in source.tables)}"
        )
    return position


def carry_or_tell(platform: Platform, source: BaseSource, *, deadline: float, say: Callable[[str], None]) -> LogPosition:
    """The same for what goes on without a place: where none can be named, what the topics hold at the call is waited for.

    The position has an empty name then, and `say` is told that nobody knows what the source holds beyond them. Of PostgreSQL and
    MariaDB, which the rest of the chain asks too, it is an error.

    Raises:
        CaughtUpTimeoutError: naming the link that did not follow in time.
    """
    try:
        return carry_named(platform, source, deadline=deadline, say=say)
    except (NoPlaceError, *_NOT_ANSWERED) as error:
        if source.asked:
            raise
        reason = error.reason if isinstance(error, NoPlaceError) else error
        say(f"{source.name}: only what its topics hold now is waited for, since its place in the log is not known: {reason}")
        return replace(carry_to_lake(platform, source, deadline=deadline, say=say), lsn="")


def offsets_text(offsets: Offsets) -> str:
    """Where topics end: `prices 0:120, prices 1:7`; empty where there is none."""
    return ", ".join(f"{topic} {p}:{end}" for topic, ends in sorted(offsets.items()) for p, end in sorted(ends.items()))


def _carry_captured(platform: Platform, source: CapturedSource, deadline: float, say: Callable[[str], None]) -> LogPosition:
    refused = f"kind {source.kind_name} is asked for no place of its log"
    if kind_of(source).database is not None:
        try:
            return carry_to_lake(platform, source, deadline=deadline, say=say, database=platform.database(source))
        except DatabaseError as error:
            if source.asked or source.reconciliation.marker is None:
                raise
            say(refused := f"{source.name}: no mark could be written to its log, so a row marks it: {error}")
    if source.reconciliation.marker is None:
        raise NoPlaceError(
            source.name, f"{refused}; declare a marker table (reconciliation: {{marker: schema.table}}), and cdc apply"
        )
    return carry_by_marker_table(platform, source, deadline, say)


def carry_by_marker_table(
    platform: Platform, source: CapturedSource, deadline: float, say: Callable[[str], None] = lambda _: None
) -> LogPosition:
    """The same by a row in the marker table that the source declares.

    Raises:
        CaughtUpTimeoutError: the connector, or the mirror, did not bring it in time.
    """
    assert source.reconciliation.marker is not None, source.name
    until, marker = time.monotonic() + deadline, f"position-{uuid.uuid4()}"
    reader, table = open_reader(source.database), parse_table(source.reconciliation.marker)
    place = mark(platform.core_kafka(source.cluster), source, reader, table, marker, until)
    return position_in_lake(platform, source, LogPosition(marker, place, {}), WaitLimit(until, say))
