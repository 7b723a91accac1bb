"""A consistent cut of a source: bronze up to a place between two commits of its log in all tables, while nobody else
appends, silver folded exactly that far, and what that is written down.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from cdc_assets.capture.incarnations.server_facts import Memory
from cdc_assets.capture.log_position import carry_to_lake
from cdc_assets.capture.onboarding.onboarding_state import Journal
from cdc_assets.chain.bronze_append import AppendPlan, append, bronze_spec, look
from cdc_assets.chain.fold_specs import catalogue_or_last_known
from cdc_assets.chain.offset_ranges import width
from cdc_assets.chain.silver_fold import fold_others
from cdc_assets.clients.delta_log import bronze_committed, silver_committed, silver_rows, silver_rows_at, version_that_folded
from cdc_assets.clients.source_chain import Chain, Say
from cdc_assets.clients.table_concurrency import table_lock
from cdc_assets.recovery.cut_manifest import CutEntry, CutManifest, Topics, keep_cut, name_of_cut
from cdc_assets.registry import names
from cdc_assets.registry.errors import RefusalError, TopicGapError
from cdc_assets.registry.kinds import kind_of, names_with
from cdc_assets.registry.source_declaration import BaseSource, CapturedSource
from cdc_assets.registry.source_settings import Cuts
from cdc_assets.registry.table_declaration import Table
from spark.errors import quantity
from spark.record_formats import CommitPlace
from spark.table.commit_metadata import Committed, CommittedTopic, Folded
from spark.table.delta_rs import open_delta

if TYPE_CHECKING:
    from spark.bronze.commit_boundaries import Boundaries

OPERATION = "cut"
_MARKERS = 3
_CARRY_SECONDS = 120.0


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


def look_whole(chain: Chain[BaseSource]) -> AppendPlan:
    """What bronze does not have of each table. Raises TopicGapError: a topic is missing, or contradicts bronze."""
    bronze = look(chain, chain.source.tables)
    if troubles := {**bronze.missing, **bronze.gaps}:
        raise TopicGapError("; ".join(troubles.values()))
    return bronze


def align(chain: Chain[CapturedSource], say: Say) -> AlignedBronze:
    """Bring bronze to a place between two commits of now; the caller has bronze's turn.

        bronze's turn is taken ─▶ all that the topics hold is appended ─▶ a marker goes through the log
        ─▶ where each partition passes it ─▶ appended up to there

    Whatever was in the topics before the marker was written lies before it in the log, so bronze has not passed it.

    Raises:
        RefusalError: no place was found, or somebody else has appended.
        TopicGapError: a topic is missing, or contradicts bronze.
        CaughtUpTimeoutError: the marker did not come through the log and the mirror in time.
    """
    append(chain, look_whole(chain), OPERATION, say)
    reason, database = "", chain.platform.database(chain.source)
    for _ in range(_MARKERS):
        position = carry_to_lake(chain, deadline=_CARRY_SECONDS, say=say, database=database)
        say(f"the marker at {position.lsn} has come through the log")
        bronze = look_whole(chain)
        if position.between is None:
            reason = "the connector has streamed no commit yet"
            continue
        bounds = _boundaries(chain, bronze, position.between)
        if bounds.unread:
            raise RefusalError(
                f"{chain.source.name}: a snapshot is on its way to {', '.join(bounds.unread)}: make the cut when it has come"
            )
        if not bounds.unclear:
            return AlignedBronze(position.between.text, _append_up_to(chain, bronze, bounds, say))
        reason = f"its place is not told by records of {', '.join(bounds.unclear)}"
    raise RefusalError(
        f"{chain.source.name}: no cut after {quantity(_MARKERS, 'marker')}: {reason}; try again: cdc cut make {chain.source.name}"
    )


def _boundaries(chain: Chain[BaseSource], found: AppendPlan, place: CommitPlace) -> Boundaries:
    from spark.bronze import commit_boundaries

    ranges = {topic: topic_slice.ranges for topic, topic_slice in found.slices.items() if width(topic_slice.ranges)}
    if not ranges:
        return commit_boundaries.Boundaries({})
    spec = commit_boundaries.BoundarySpec(bronze_spec(chain, found, ranges, OPERATION), place)
    return chain.platform.spark().run(commit_boundaries.run, spec)


def _append_up_to(chain: Chain[BaseSource], found: AppendPlan, bounds: Boundaries, say: Say) -> Committed:
    for topic, topic_slice in found.slices.items():
        ends = bounds.ends.get(topic, {})
        ranges = {p: (start, min(end, ends.get(p, end))) for p, (start, end) in topic_slice.ranges.items()}
        found.slices[topic] = replace(topic_slice, ranges=ranges)
    append(chain, found, OPERATION, say)
    committed = bronze_committed(chain.bronze_path)
    if committed is None:
        raise RefusalError(f"{chain.source.name}: bronze holds nothing yet: cdc status")
    for topic, topic_slice in found.slices.items():
        state = committed.topics.get(topic)
        ends_wanted = {p: end for p, (_, end) in topic_slice.ranges.items()}
        ends_held = {p: end for p, end in state.positions.items() if p in ends_wanted} if state else dict.fromkeys(ends_wanted, 0)
        if ends_held != ends_wanted:
            differs = f"{topic} is at {ends_held}, and the cut at {ends_wanted}"
            raise RefusalError(
                f"{chain.source.name}: somebody else appends to bronze, without its turn: {differs}; end that stream for a cut"
            )
    return committed


_BUSY_SECONDS = 5.0


@dataclass(frozen=True)
class MadeCut:
    """A cut that is written down, and the names of those that were forgotten."""

    manifest: CutManifest
    forgotten: tuple[str, ...]


def plan_cut(chain: Chain[BaseSource]) -> Iterator[dict[str, Any]]:
    """What a cut of now would begin with, by table; nothing is changed.

    Raises:
        RefusalError: the source can have none now.
        TopicGapError: a topic is missing, or contradicts bronze.
    """
    ready_source(chain.source)
    for topic_slice in look_whole(chain).slices.values():
        path = chain.silver_path(topic_slice.table)
        folded = silver_committed(path)
        yield {
            "table": names.table_name(topic_slice.table),
            "version": folded.version if folded else None,
            "rows": silver_rows(path),
            "waiting": width(topic_slice.ranges),
        }


def make_cut(chain: Chain[BaseSource], say: Say) -> MadeCut:
    """Make it, and write it down.

    While it is made nobody else appends to the source's bronze, so silver cannot pass the cut. Everything else goes on; a kill
    leaves commits like those of any other run, and no cut.

    Raises:
        RefusalError: the source can have none now.
        TableBusyError: another cut of it is being made.
        FailuresError: tables that silver could not fold up to it.
        CdcAssetsError: what a run of bronze and silver may meet.
    """
    captured = ready_source(chain.source)
    with table_lock("cut", chain.source.name, "all", deadline=_BUSY_SECONDS):
        with bronze_turn(chain.source):
            aligned = align(Chain(chain.platform, captured), say)
            for table, (result, _) in _fold(chain, aligned, say):
                say(f"{names.table_name(table)}: folded {result.rows_read} in {result.seconds:.2f} s")
            made_at = datetime.now(timezone.utc).replace(microsecond=0)
            entries = tuple(_entries(chain.platform.lake, chain.source, aligned))
        cut = CutManifest(name_of_cut(chain.source.name, made_at), chain.source.name, made_at, aligned.position, entries)
        return MadeCut(cut, tuple(keep_cut(chain.platform.lake, chain.source, cut, (chain.source.cuts or Cuts()).keep)))


def ready_source(source: BaseSource) -> CapturedSource:
    """The source, whose log and tables are such that a cut can be made. Raises RefusalError: why not."""
    captured = source.captured
    if captured is None or not kind_of(captured).has_commit_places:
        kinds = ", ".join(names_with(lambda kind: kind.has_commit_places))
        raise RefusalError(f"{source.name} has no log whose commits are told apart: cuts are of {kinds}")
    running = Journal.of(source.name).running
    if running is not None:
        tables = ", ".join(running.tables)
        raise RefusalError(f"{source.name}: {tables}: a reading is under way: cdc onboard {source.name} --resume, then the cut")
    if Memory.of(source.name).opening is not None:
        raise RefusalError(f"{source.name}: a new epoch is being opened: cdc repair source {source.name}, then the cut")
    return captured


def _fold(chain: Chain[BaseSource], aligned: AlignedBronze, say: Say) -> Iterator[Any]:
    catalogue = catalogue_or_last_known(chain, chain.source.tables, say)
    return fold_others(chain, chain.source.tables, catalogue, aligned.committed.version, say)


def _entries(lake: str, source: BaseSource, aligned: AlignedBronze) -> Iterator[CutEntry]:
    for table in source.tables:
        topics = aligned.committed.of_table(names.table_name(table))
        layers = {"silver": names.silver_path(lake, source, table)}
        if table.history == "scd2":
            layers["history"] = names.history_path(lake, source, table)
        for layer, path in layers.items():
            yield _entry(lake, table, topics, layer, path)


def _entry(lake: str, table: Table, topics: dict[str, CommittedTopic], layer: str, path: str) -> CutEntry:
    entry_path, name = path.removeprefix(f"{lake.rstrip('/')}/"), names.table_name(table)
    folded = silver_committed(path)
    version = version_that_folded(path, Folded(-1, topics)) if folded is not None else None
    if folded is None or version is None:
        raise RefusalError(
            f"{entry_path} has not folded what the cut holds, or more: somebody else folds it; {_again(entry_path)}"
        )
    own_id = str(open_delta(path, version=version).metadata().id)
    return CutEntry(layer, name, entry_path, version, own_id, silver_rows_at(path, version), folded.quarantined, _ends_of(topics))


def _again(place: str) -> str:
    return f"try again: cdc cut make {place.split('/')[1]}"


def _ends_of(topics: dict[str, CommittedTopic]) -> Topics:
    return {
        topic: {
            "id": state.topic_id,
            "epoch": state.epoch,
            "records": state.records,
            "ends": {str(p): end for p, end in sorted(state.positions.items())},
        }
        for topic, state in topics.items()
    }
