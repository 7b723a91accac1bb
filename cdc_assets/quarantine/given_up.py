"""Records that were given up (`cdc quarantine drop`): a person's decision, which no record and no other table tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from cdc_assets import names
from cdc_assets.quarantine.quarantined_records import places_given_up
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.delta_log import bronze_committed, silver_committed
from cdc_assets.resources.platform import Platform
from spark.specs import SilverSpec

GivenUp = Mapping[str, Mapping[str, list[list[int]]]]
"""By topic and partition the runs of offsets, first and last."""


def records_given_up(lake: str, source: BaseSource) -> dict[str, GivenUp]:
    """Of each table that has any."""
    found: dict[str, GivenUp] = {}
    for table in source.tables:
        if places := places_given_up(lake, source, table):
            found[names.table_name(table)] = _runs(places)
    return found


def give_up_again(platform: Platform, spec: SilverSpec, history: SilverSpec | None, decided: GivenUp) -> int:
    """Behind a fold that has put them into quarantine anew: they are given up, and what waited for them is folded.

    How many were found.
    """
    from spark.silver import redrive

    runs = {topic: {int(p): [(first, last) for first, last in at] for p, at in parts.items()} for topic, parts in decided.items()}
    found: int = platform.spark().run(lambda session, _: redrive.drop_runs(session, spec, runs), spec)
    if found:
        platform.spark().run(lambda session, _: redrive.redrive(session, spec, redrive.Choice()), spec)
        if history is not None:
            fold_history_again(platform, history, spec.path)
    return found


def fold_history_again(platform: Platform, spec: SilverSpec, silver: str) -> None:
    """The history heeds what was decided, up to where silver is: nothing else asks for a run until new events come."""
    from spark.bronze.slice import is_all_folded
    from spark.history import job as history

    folded, committed = silver_committed(silver), bronze_committed(spec.bronze_path)
    if folded is not None and committed is not None:
        newest = is_all_folded(committed, folded, spec.table)
        platform.spark().run(history.run, replace(spec, folded_limit=committed.version if newest else folded.bronze_version))


def _runs(places: list[tuple[str, int, int]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for topic, partition, offset in sorted(places):
        runs = found.setdefault(topic, {}).setdefault(str(partition), [])
        if runs and offset <= runs[-1][1] + 1:
            runs[-1][1] = max(runs[-1][1], offset)
        else:
            runs.append([offset, offset])
    return found
