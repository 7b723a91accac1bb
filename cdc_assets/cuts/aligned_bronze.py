"""Bronze up to a place between two commits of the source, in all tables, while nobody else appends.

    bronze's turn is taken ─▶ all that the topics hold is appended ─▶ a marker goes through the log ─▶ where each partition passes
    it ─▶ appended up to there

Whatever was in the topics before the marker was written lies before it in the log, so bronze has not passed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cdc_assets import names
from cdc_assets.bronze.append import AppendPlan, append, bronze_spec, look
from cdc_assets.bronze.ranges import width
from cdc_assets.errors import CutError, TopicGapError
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.resources.delta_log import bronze_committed
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import table_lock
from cdc_assets.volumetry.log_position import carry_to_lake
from spark.delta.commits import Committed
from spark.positions.commit_place import CommitPlace

if TYPE_CHECKING:
    from spark.cuts.boundaries import Boundaries

OPERATION = "cut"
_MARKERS = 3
_CARRY_SECONDS = 120.0
Say = Callable[[str], None]


@dataclass(frozen=True)
class AlignedBronze:
    """Bronze as it holds what was committed up to `position`, and nothing else."""

    position: str
    committed: Committed


@contextmanager
def bronze_turn(source: BaseSource) -> Iterator[None]:
    """Nobody else appends to the source's bronze within the block.

    Raises:
        TableBusyError: somebody else does, for a quarter of an hour.
    """
    with ExitStack() as locks:
        for table in sorted(source.tables, key=lambda table: table.name):  # in the order of the bronze step
            locks.enter_context(table_lock("bronze", source.name, names.table_name(table)))
        yield


def look_whole(platform: Platform, source: BaseSource) -> AppendPlan:
    """What bronze does not have of each table.

    Raises:
        TopicGapError: a topic is missing, or contradicts bronze.
    """
    found = look(platform, source, source.tables)
    if troubles := {**found.missing, **found.gaps}:
        raise TopicGapError("; ".join(troubles.values()))
    return found


def align(platform: Platform, source: CapturedSource, say: Say) -> AlignedBronze:
    """Bring bronze to a place between two commits of now; the caller has bronze's turn.

    Raises:
        CutError: no place was found, or somebody else has appended.
        TopicGapError: a topic is missing, or contradicts bronze.
        CaughtUpTimeoutError: the marker did not come through the log and the mirror in time.
    """
    append(platform, source, look_whole(platform, source), OPERATION, say)
    reason, database = "", platform.database(source)
    for _ in range(_MARKERS):
        position = carry_to_lake(platform, source, deadline=_CARRY_SECONDS, say=say, database=database)
        say(f"the marker at {position.lsn} has come through the log")
        found = look_whole(platform, source)
        if position.between is None:
            reason = "the connector has streamed no commit yet"
            continue
        bounds = _boundaries(platform, source, found, position.between)
        if bounds.unread:
            raise CutError(
                f"{source.name}: a snapshot is on its way to {', '.join(bounds.unread)}: make the cut when it has come"
            )
        if not bounds.unclear:
            return AlignedBronze(position.between.text, _append_up_to(platform, source, found, bounds, say))
        reason = f"its place is not told by records of {', '.join(bounds.unclear)}"
    raise CutError(f"{source.name}: no cut after {quantity(_MARKERS, 'marker')}: {reason}; try again: cdc cut make {source.name}")


def _boundaries(platform: Platform, source: BaseSource, found: AppendPlan, place: CommitPlace) -> Boundaries:
    from spark.cuts import boundaries

    parts = {topic: each.ranges for topic, each in found.slices.items() if width(each.ranges)}
    if not parts:
        return boundaries.Boundaries({})
    asked = boundaries.BoundarySpec(bronze_spec(platform, source, found, parts, OPERATION), place)
    return platform.spark().run(boundaries.run, asked)


def _append_up_to(platform: Platform, source: BaseSource, found: AppendPlan, bounds: Boundaries, say: Say) -> Committed:
    for topic, each in found.slices.items():
        ends = bounds.ends.get(topic, {})
        ranges = {p: (start, min(end, ends.get(p, end))) for p, (start, end) in each.ranges.items()}
        found.slices[topic] = replace(each, ranges=ranges)
    append(platform, source, found, OPERATION, say)
    committed = bronze_committed(names.bronze_path(platform.lake, source))
    if committed is None:
        raise CutError(f"{source.name}: bronze holds nothing yet: cdc status")
    for topic, each in found.slices.items():
        state = committed.topics.get(topic)
        wanted = {p: end for p, (_, end) in each.ranges.items()}
        held = {p: end for p, end in state.positions.items() if p in wanted} if state else dict.fromkeys(wanted, 0)
        if held != wanted:
            told = f"{topic} is at {held}, and the cut at {wanted}"
            raise CutError(f"{source.name}: somebody else appends to bronze, without its turn: {told}; end that stream for a cut")
    return committed
