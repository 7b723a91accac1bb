"""`cdc restore` and `cdc drill`: tables, topics and connectors of a source from its backup, and the proof that this works.

A drill restores the newest backup beside the lake and compares it with silver; it changes nothing of the lake.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_assets.cli.declared_sources import EVERY_SOURCE, ChosenSources, complete_source
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document, print_rows
from cdc_assets.cli.progress import console
from cdc_assets.cli.verb_frame import OneChain, say, verb
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.source_declaration import BaseSource
from spark.errors import quantity
from spark.upkeep.replay_spec import WantedKeys

if TYPE_CHECKING:
    from cdc_assets.recovery.drill import Drill
    from cdc_assets.recovery.restore_point import RestoredTable, RestoreRequest


def restore_clusters(chain: Chain[BaseSource], *, topics: bool, connectors: bool, dry_run: bool, output: Format) -> None:
    """Schemas first, which topics are read with; then topics, and connectors, which go on behind them."""
    source = chain.source
    answer: dict[str, Any] = {"source": source.name, "dry_run": dry_run}
    if topics:
        answer["subjects"] = _subjects(chain, dry_run)
        answer["topics"] = _topics(chain, dry_run)
    if connectors:
        answer["connectors"] = _connectors(chain, dry_run)
    if is_data(output):
        print_document(answer, output)
        return
    done = "would be restored" if dry_run else "restored"
    for row in answer.get("subjects", ()):
        print(f"{row['subject']} ({row['registry']}): {quantity(row['versions'], 'version')} {done}")
    for row in answer.get("topics", ()):
        print(f"{row['topic']} ({row['cluster']}) {row['why']}: {quantity(row['records'], 'record')} {done}")
    if topics and not answer["topics"]:
        print(f"{source.name}: every topic is there")
    for row in answer.get("connectors", ()):
        print(f"{row['connector']} {row['way']}: {row['reason']}")


def _subjects(chain: Chain[BaseSource], dry_run: bool) -> list[dict[str, Any]]:
    from cdc_assets.recovery.lost_subjects import plan_subjects, restore_subjects
    from cdc_assets.recovery.topic_plan import backup_store

    store = backup_store(chain)
    plans = plan_subjects(store, chain.source) if dry_run else restore_subjects(store, chain.source, say)
    return [plan.to_json() for plan in plans]


def _topics(chain: Chain[BaseSource], dry_run: bool) -> list[dict[str, Any]]:
    from cdc_assets.recovery.lost_topics import restore_topics
    from cdc_assets.recovery.topic_plan import plan_topics

    if dry_run:
        return [plan.to_json() for plan in plan_topics(chain)]
    filled = restore_topics(chain, say)
    return [{**topic.plan.to_json(), "topic_id": topic.topic_id, "records": topic.records} for topic in filled]


def _connectors(chain: Chain[BaseSource], dry_run: bool) -> list[dict[str, Any]]:
    from cdc_assets.recovery.restored_connectors import plan_connectors, restore_connectors

    plans = plan_connectors(chain) if dry_run else restore_connectors(chain, say)
    return [plan.to_json() for plan in plans]


_SHOWN_RESTORED = ("table", "outcome", "records", "objects", "bytes", "epoch", "positions")


@dataclass(frozen=True)
class RestoreOptions:
    """What is restored, how far, and where to."""

    into: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Another lake, beside the one of now; its tables are made there.")
    ] = None
    to: Annotated[
        str | None,
        typer.Option(metavar="TIME|POSITION|CUT", help="Up to a moment (2026-11-25T18:00:00Z), a _cdc_position or a kept cut."),
    ] = None
    skip_damaged: Annotated[
        bool, typer.Option("--skip-damaged", help="Restore damaged tables as well, without their damaged objects.")
    ] = False
    keys: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help='Only rows of this key: 42, or {"a": 1, "b": "x"}; may be given again. With --into.'),
    ] = None
    from_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Only rows from this key on, it included; as --keys, with --into.")
    ] = None
    to_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Only rows up to this key, it included; with or without --from-key.")
    ] = None
    past: Annotated[
        bool, typer.Option("--past", help="Only what bronze has given to the backup (bronze.keep), beside the lake, for a day.")
    ] = False
    topics: Annotated[bool, typer.Option("--topics", help="Instead of tables: topics and schemas that are gone.")] = False
    connectors: Annotated[
        bool, typer.Option("--connectors", help="Instead of tables: connectors that are gone, with their offsets.")
    ] = False

    @property
    def is_of_clusters(self) -> bool:
        """Whether topics or connectors are asked for, and no table."""
        return self.topics or self.connectors

    @property
    def is_of_rows(self) -> bool:
        """Whether it is said up to where, or where to, or which rows."""
        return bool(self.into or self.to or self.skip_damaged or self.wanted)

    @property
    def wanted(self) -> WantedKeys:
        """The keys whose rows are restored."""
        return WantedKeys(tuple(self.keys or ()), self.from_key, self.to_key)


@verb(failure=2, lake=True)
def restore(
    chain: OneChain,
    tables: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]…", help="By short name; all without.")] = None,
    choice: RestoreOptions = RestoreOptions(),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Read what would be restored, and change nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Make bronze from the backup, and silver and histories from bronze.

    Tables that are there are not touched: exit 2. Killed, the same command goes on. Exit 1 when
    something of the backup is damaged: the tables without damage are restored.
    """
    from cdc_assets.recovery.restored_bronze import plan_bronze
    from cdc_assets.recovery.restored_source import RestoreWish, make_request

    if choice.is_of_clusters:
        if tables or choice.is_of_rows or choice.past:
            raise typer.BadParameter(
                "--topics and --connectors are of the whole source: give them without tables, --into, --to or --past"
            )
        restore_clusters(chain, topics=choice.topics, connectors=choice.connectors, dry_run=dry_run, output=output)
        return
    if choice.past:
        print_rows(_bring_back(chain, tables or [], choice, dry_run), output, narrow=("table", "outcome", "records"))
        return
    wish = RestoreWish(tuple(tables or ()), choice.into, choice.to, choice.skip_damaged, choice.wanted)
    request = make_request(chain, wish)
    rows = (
        plan_bronze(request, console.print) if dry_run else _restore(chain.platform, request, needs_spark=choice.into is not None)
    )
    print_rows([request.row_of(row) for row in rows], output, narrow=_SHOWN_RESTORED)
    for sentence in (sentence for row in rows for sentence in row.damage):
        print(f"damaged: {sentence}", file=sys.stderr)
    if any(row.damage for row in rows):
        raise typer.Exit(1)


def _bring_back(chain: Chain[BaseSource], tables: list[str], choice: RestoreOptions, dry_run: bool) -> list[dict[str, Any]]:
    from cdc_assets.recovery.past_records import bring_back, floor_of_table
    from cdc_assets.recovery.restored_source import tables_of

    if choice.is_of_rows:
        raise typer.BadParameter(
            "--past is up to where bronze begins, and whole: give it without --into, --to, --skip-damaged and keys"
        )
    rows = []
    for table in tables_of(chain.source, tables):
        floor = floor_of_table(chain.platform.lake, chain.source, table)
        restored = None if dry_run else bring_back(chain, table, console.print)
        outcome = restored.outcome if restored else "gone" if floor else "there"
        rows.append({"table": names.table_name(table), "outcome": outcome, "records": floor.records if floor else 0})
    return rows


def _restore(platform: Platform, request: RestoreRequest, *, needs_spark: bool) -> list[RestoredTable]:
    # Into the lake itself without Spark as well: the runs of the source make silver when they go on.
    from cdc_assets.recovery.restored_bronze import restore_bronze
    from cdc_assets.recovery.restored_source import restore_source

    if needs_spark:
        settings.address("CDC_SPARK_REMOTE")  # before an hour of bronze
    if settings.lookup("CDC_SPARK_REMOTE"):
        return restore_source(platform, request, console.print)
    restored = restore_bronze(request, console.print)
    console.print("bronze is restored; no Spark runs here, so silver and histories follow with the source's runs: ./cdc up")
    return restored


_PLANNED = ("source", "table", "version", "records", "objects", "bytes", "problem")
_SHOWN_DRILLED = ("source", "table", "version", "rows", "differing", "problem")


@verb(failure=2, lake=True)
def drill(
    platform: Platform,
    chosen: Annotated[
        ChosenSources, typer.Argument(metavar="[SOURCE]…", help="All that have a backup without.", autocompletion=complete_source)
    ] = EVERY_SOURCE,
    last: Annotated[bool, typer.Option("--last", help="Print what the last drill has found, and do nothing.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the restored tables where they are.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be restored and compared; do nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Restore the newest backup into a scratch lake and compare it with silver as it was there.

    Exit 1 when a row differs, or a table cannot be restored. The lake itself is only read.
    """
    from cdc_assets.recovery.drill import drill_source

    if dry_run and (last or keep):
        raise typer.BadParameter("--dry-run does nothing: give it without --last and --keep")
    chains = [Chain(platform, source) for source in chosen if chosen.are_named or source.backup is not None]
    if not chains:
        raise RefusalError("no source declares a backup: there is nothing to drill (backup: in its file)")
    if dry_run:
        _print_plans(chains, output)
        return
    drills = [one for chain in chains if (one := _last(chain) if last else drill_source(chain, console.print, keep=keep))]
    if is_data(output):
        print_document([one.to_json() for one in drills], output)
    else:
        rows = [{"source": one.source, **table} for one in drills for table in one.to_json()["tables"]]
        print_rows(rows, output, narrow=_SHOWN_DRILLED)
        for one in drills:
            console.print(f"{one.source}: {one.moment}, {one.seconds / 60:.1f} minutes, {quantity(one.bytes, 'byte')} of backup")
    if not all(one.is_equal for one in drills):
        raise typer.Exit(1)


def _print_plans(chains: list[Chain[BaseSource]], output: Format) -> None:
    from cdc_assets.recovery.drill import plan_drill

    plans = [plan.to_json(chain.source.name) for chain in chains for plan in plan_drill(chain)]
    print_rows(plans, output, narrow=_PLANNED)
    if any(plan["problem"] for plan in plans):
        raise typer.Exit(1)


def _last(chain: Chain[BaseSource]) -> Drill | None:
    """As the lake has noted it; where there is none any more, as the backup has."""
    from cdc_assets.recovery.drill import drill_of_backup, last_drill

    source = chain.source
    newest = last_drill(chain.platform.lake, source)
    return newest if newest or source.backup is None else drill_of_backup(chain.platform.store(source.backup.store), source.name)
