"""A cut of a source: bronze up to a place between two commits, silver folded exactly that far, and what that is written down.

While it is made nobody else appends to the source's bronze, so silver cannot pass the cut. Everything else goes on; a kill leaves
commits like those of any other run, and no cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from cdc_assets import names
from cdc_assets.bronze.copies import take_out_copies
from cdc_assets.bronze.ranges import width
from cdc_assets.cuts.aligned_bronze import AlignedBronze, Say, align, bronze_turn, look_whole
from cdc_assets.cuts.cut_manifest import CutEntry, CutManifest, Topics, name_of_cut
from cdc_assets.cuts.keep_cut import keep_cut
from cdc_assets.errors import CutError
from cdc_assets.identity.memory import Memory
from cdc_assets.kinds import kind_of, names_with
from cdc_assets.onboarding.state import Journal
from cdc_assets.registry.base_table import Table
from cdc_assets.registry.models import BaseSource, CapturedSource
from cdc_assets.registry.source_settings import Cuts
from cdc_assets.resources.delta_log import rows_at, silver_committed, silver_rows, version_that_folded
from cdc_assets.resources.platform import Platform
from cdc_assets.resources.table_lock import table_lock
from cdc_assets.silver.fold_tables import fold_others
from cdc_assets.tables.fold_specs import catalogue_or_last_known
from spark.delta.commits import CommittedTopic, Folded
from spark.delta.delta_rs import open_delta

_BUSY_SECONDS = 5.0


@dataclass(frozen=True)
class MadeCut:
    """A cut that is written down, and the names of those that were forgotten."""

    manifest: CutManifest
    forgotten: tuple[str, ...]


def plan_cut(platform: Platform, source: BaseSource) -> Iterator[dict[str, Any]]:
    """What a cut of now would begin with, by table; nothing is changed.

    Raises:
        CutError: the source can have none now.
        TopicGapError: a topic is missing, or contradicts bronze.
    """
    ready_source(source)
    for each in look_whole(platform, source).slices.values():
        path = names.silver_path(platform.lake, source, each.table)
        folded = silver_committed(path)
        yield {
            "table": names.table_name(each.table),
            "version": folded.version if folded else None,
            "rows": silver_rows(path),
            "waiting": width(each.ranges),
        }


def make_cut(platform: Platform, source: BaseSource, say: Say) -> MadeCut:
    """Make it, and write it down.

    Raises:
        CutError: the source can have none now.
        TableBusyError: another cut of it is being made.
        TableFailuresError: tables that silver could not fold up to it.
        CdcAssetsError: what a run of bronze and silver may meet.
    """
    captured = ready_source(source)
    with table_lock("cut", source.name, "all", deadline=_BUSY_SECONDS):
        with bronze_turn(source):
            aligned = align(platform, captured, say)
            for table, (result, _) in _fold(platform, source, aligned, say):
                say(f"{names.table_name(table)}: folded {result.rows_read} in {result.seconds:.2f} s")
            made_at = datetime.now(timezone.utc).replace(microsecond=0)
            entries = tuple(_entries(platform.lake, source, aligned))
        cut = CutManifest(name_of_cut(source.name, made_at), source.name, made_at, aligned.position, entries)
        return MadeCut(cut, tuple(keep_cut(platform.lake, source, cut, (source.cuts or Cuts()).keep)))


def ready_source(source: BaseSource) -> CapturedSource:
    """The source, whose log and tables are such that a cut can be made.

    Raises:
        CutError: why not.
    """
    captured = source.captured
    if captured is None or not kind_of(captured).has_commit_places:
        told = ", ".join(names_with("has_commit_places"))
        raise CutError(f"{source.name} has no log whose commits are told apart: cuts are of {told}")
    running = Journal.of(source.name).running
    if running is not None:
        tables = ", ".join(running.tables)
        raise CutError(f"{source.name}: {tables}: a reading is under way: cdc onboard {source.name} --resume, then the cut")
    if Memory.of(source.name).opening is not None:
        raise CutError(f"{source.name}: a new epoch is being opened: cdc repair source {source.name}, then the cut")
    return captured


def _fold(platform: Platform, source: BaseSource, aligned: AlignedBronze, say: Say) -> Iterator[Any]:
    take_out_copies(platform, source, say)
    catalogue = catalogue_or_last_known(platform, source, source.tables, say)
    return fold_others(platform, source, source.tables, catalogue, aligned.committed.version, say)


def _entries(lake: str, source: BaseSource, aligned: AlignedBronze) -> Iterator[CutEntry]:
    for table in source.tables:
        topics = aligned.committed.of_table(names.table_name(table))
        layers = {"silver": names.silver_path(lake, source, table)}
        if table.history == "scd2":
            layers["history"] = names.history_path(lake, source, table)
        for layer, path in layers.items():
            yield _entry(lake, table, topics, layer, path)


def _entry(lake: str, table: Table, topics: dict[str, CommittedTopic], layer: str, path: str) -> CutEntry:
    place, name = _below(lake, path), names.table_name(table)
    folded = silver_committed(path)
    version = version_that_folded(path, Folded(-1, topics)) if folded is not None else None
    if folded is None or version is None:
        raise CutError(f"{place} has not folded what the cut holds, or more: somebody else folds it; {_again(place)}")
    own_id = str(open_delta(path, version=version).metadata().id)
    return CutEntry(layer, name, place, version, own_id, rows_at(path, version), folded.quarantined, _ends_of(topics))


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


def _below(lake: str, path: str) -> str:
    return path.removeprefix(f"{lake.rstrip('/')}/")
