"""The shadow of a live table: folded by the table's own job from all of bronze, up to where the live table is.

Both are then at the same place in the log, so what differs between them is due to the replay alone.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from spark.bronze.slice import fold_at_last_run
from spark.delta.commits import Folded
from spark.delta.log import silver_folded
from spark.errors import HistoryTooShortError, ReplayError, quantity
from spark.history import job as history_job
from spark.reconcile.history_again import Again, records_lost
from spark.replay.replay_spec import HISTORY, QUARANTINE, SILVER, ReplaySpec
from spark.replay.todays_rules import TodaysRules, find_rules
from spark.schema.column_ledger import PROPERTY
from spark.schema.evolution import set_properties
from spark.silver import job as silver_job
from spark.silver import quarantine
from spark.specs import SilverSpec

JOBS = {SILVER: silver_job.run, HISTORY: history_job.run}


def place_of_live(session: SparkSession, asked: ReplaySpec, layer: str, *, version: int | None = None) -> Folded:
    """What the live table has folded, at a version where one is given; a history that is not there yet begins where silver is.

    Raises:
        ReplayError: there is no silver table.
    """
    own = None if version == -1 else silver_folded(session, asked.live[layer].path, up_to=version)
    before = own or silver_folded(session, asked.silver.path)
    if before is None:
        raise ReplayError(f"{asked.silver.path}: there is no table yet: its next run makes it from all of bronze")
    return before


def rules_of_live(session: SparkSession, asked: ReplaySpec, layer: str, version: int) -> TodaysRules:
    """Today's rules for the live table at that version (-1: there is none yet).

    Raises:
        ReplayError: there is no silver table.
        SchemaMismatchError: the table is declared to halt at a change of its source.
    """
    before = place_of_live(session, asked, layer, version=version)
    return find_rules(session, asked.live[layer], before if version >= 0 else None, as_new=asked.as_new)


def build_shadow(session: SparkSession, asked: ReplaySpec, layer: str, by: tuple[TodaysRules, int]) -> None:
    """Fold it by these rules, as far as the live table had at that version.

    Raises:
        ReplayError: bronze does not hold all that the live table was made of.
        QuarantineFullError: more records than the table's limit cannot be folded.
    """
    rules, version = by
    live, before = asked.live[layer], place_of_live(session, asked, layer, version=version)
    limit = _limit(session, live, before)
    lost = records_lost(session, Again(live, before, limit))
    if lost:
        known = sum(state.all_records for state in before.topics.values())
        raise ReplayError(
            f"table {live.table}: {live.bronze_path} lacks {lost:,} of the {quantity(known, 'record', form=',')} that "
            f"{live.path} was made of, so it cannot be made again; the table is unchanged. Read it again from the source: "
            f"cdc snapshot {live.source} {live.table}"
        )
    shadow = asked.shadow_of(rules.spec, layer)
    JOBS[layer](session, replace(shadow, folded_limit=limit))
    set_properties(session, shadow.path, {PROPERTY: rules.ledger.to_text()})


def seed_quarantine(session: SparkSession, asked: ReplaySpec) -> None:
    """The records that were given up stay so: the shadow does not wait for them."""
    if not quarantine.exists(session, asked.silver):
        return
    given_up = quarantine.table(session, asked.silver).where("dropped_at IS NOT NULL")
    if not given_up.isEmpty():
        given_up.write.format("delta").mode("error").save(f"{asked.folder}/{QUARANTINE}")


def catch_up(session: SparkSession, asked: ReplaySpec, layer: str) -> None:
    """Fold what the live table has folded since, by an ordinary run upon the shadow."""
    live, before = asked.live[layer], place_of_live(session, asked, layer)
    shadow = asked.shadow_of(live, layer)
    if silver_job.has_news(before.topics, silver_folded(session, shadow.path)):
        JOBS[layer](session, replace(shadow, folded_limit=_limit(session, live, before)))


def _limit(session: SparkSession, live: SilverSpec, before: Folded) -> int:
    try:
        return fold_at_last_run(session, live, before).version
    except HistoryTooShortError as error:
        raise ReplayError(
            f"table {live.table}: the log of {live.bronze_path} no longer reaches back to version {before.bronze_version}, up to "
            f"which {live.path} has folded: {error}; let an ordinary run fold what is new, then replay"
        ) from error
