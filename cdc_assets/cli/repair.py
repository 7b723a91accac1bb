"""`cdc repair`: a mirrored topic or bronze after a loss, a source whose server was restored or promoted."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_assets.cli.chosen_sources import chosen_sources, complete_source, complete_topic
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document

if TYPE_CHECKING:
    from cdc_assets.registry.models import BaseSource, Source, Table
    from cdc_assets.resources.platform import Platform

app = typer.Typer(no_args_is_help=True, help="Mend what a red check has named.")


@app.callback()
def _group() -> None:
    """A group even while it has one verb."""


@app.command("mirror")
def mirror(
    topic: Annotated[str, typer.Argument(help="The topic's name on the core cluster.", autocompletion=complete_topic)],
    snapshot: Annotated[bool, typer.Option(help="Read the table again, so that what is lost for good is mended.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Copy a topic again and read its table again, as far as its findings ask for it; exit 1 while something is wrong."""
    from cdc_assets.mirroring.repair import plan, repair
    from cdc_assets.resources.platform import Platform

    platform = Platform()
    chosen = plan(platform, chosen_sources(), topic, snapshot=snapshot)
    state = chosen.state if dry_run else repair(platform, chosen, lambda text: print(text, file=sys.stderr))
    if is_data(output):
        print_document({"steps": chosen.steps, "before": chosen.state.to_json(), "after": state.to_json()}, output)
    else:
        for finding in chosen.state.findings:
            print(finding.message)
        for number, step in enumerate(chosen.steps, 1):
            print(f"{number} {step}")
        print(f"{topic}: {state.state}")
    if state.repair and not dry_run:
        raise typer.Exit(1)


@app.command("bronze")
def bronze(
    source: Annotated[str, typer.Argument(help="The source's name in the registry.", autocompletion=complete_source)],
    table: Annotated[str, typer.Argument(help="The table, as in the database or in the lake.")],
    anew: Annotated[
        bool,
        typer.Option(
            "--anew", help="Also if nothing is lost. Silver drops rows that the source does not have and no event deletes."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Read a table again, and go on in a new epoch: for a lake's topic that has lost records which bronze had not read."""
    from cdc_assets import names
    from cdc_assets.bronze.append import look
    from cdc_assets.resources.platform import Platform

    (declared,) = chosen_sources([source])
    try:
        chosen = declared.table(table)
    except KeyError as error:
        raise typer.BadParameter(str(error.args[0])) from None
    platform, topic, short = Platform(), names.lake_topic(declared, chosen), names.table_name(chosen)
    found = look(platform, declared, [chosen])
    gap = {**found.gaps, **found.missing}.get(topic)
    epoch = found.before[topic].epoch if topic in found.before else 0
    wanted = topic in found.gaps or (anew and topic in found.before and topic not in found.missing)
    if wanted:
        asked = _source_to_ask(declared, gap or topic)
        epoch = epoch if dry_run else _reload(platform, asked, chosen)
    answer = {"source": declared.name, "table": short, "topic": topic, "gap": gap, "epoch": epoch}
    if is_data(output):
        print_document({**answer, "repaired": wanted and not dry_run}, output)
    else:
        print(gap or f"{topic}: bronze has not lost anything")
        if wanted:
            after = epoch + (dry_run and topic in found.before)
            print(f"{'would read' if dry_run else 'read'} {chosen.name} again; bronze goes on in epoch {after}")


def _source_to_ask(declared: BaseSource, trouble: str) -> Source:
    """The source, whose database can be asked for its rows again.

    Raises:
        TopicGapError: it cannot; begins with the trouble.
    """
    from cdc_assets.errors import TopicGapError
    from cdc_assets.kinds import names_with

    if declared.asked is not None:
        return declared.asked
    why = "nobody can be asked to send a topic's records again"
    if own := declared.captured:
        why = f"this reads tables of kind {' and '.join(names_with('database'))} again, not of kind {own.database.kind}"
    raise TopicGapError(f"{trouble}; but {why}")


def _reload(platform: Platform, source: Source, table: Table) -> int:
    """Read the table again, under the lock of its bronze; the epoch in which bronze goes on."""
    from cdc_assets import names
    from cdc_assets.bronze.append import AppendPlan, append, look, reload_table
    from cdc_assets.resources.table_lock import table_lock

    topic, say = names.lake_topic(source, table), partial(print, file=sys.stderr)
    with table_lock("bronze", source.name, names.table_name(table)):
        found = look(platform, source, [table])
        part = reload_table(platform, source, table, found.before.get(topic), say, whole_topic=topic in found.gaps)
        append(platform, source, AppendPlan(found.before, {topic: part}), "repair", say)
    return part.epoch


@app.command("source")
def source(
    name: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The source's name in the registry.", autocompletion=complete_source)
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Open a new epoch with every table read again: for a source whose server was restored, or lost its slot."""
    from cdc_assets.errors import IncarnationError
    from cdc_assets.failover.epochs import open_epoch
    from cdc_assets.failover.opening import STEPS
    from cdc_assets.identity.look import verdict
    from cdc_assets.kinds import kind_of
    from cdc_assets.resources.platform import Platform

    (declared,) = chosen_sources([name])
    asked = declared.asked
    if asked is None or kind_of(asked).incarnation is None:
        raise IncarnationError(
            f"source {name} is no PostgreSQL or MariaDB database: its incarnations are not told "
            "(docs/explanation/incarnations.md)"
        )
    platform = Platform()
    found = verdict(platform, asked)
    other = found.kind == "other"
    epochs = {}
    if other and not dry_run:
        epochs = dict(open_epoch(platform, asked, found.reason, lambda text: print(text, file=sys.stderr)))
    if is_data(output):
        steps = list(STEPS.values()) if other else []
        print_document({"source": name, **asdict(found), "steps": steps, "epochs": epochs}, output)
        return
    print(f"{name}: {found.reason or 'its server is the one that was read'}")
    for number, step in enumerate(STEPS.values() if other and dry_run else (), 1):
        print(f"{number} {step}")
    for topic, epoch in sorted(epochs.items()):
        print(f"{topic}: epoch {epoch}")
