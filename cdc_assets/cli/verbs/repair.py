"""`cdc repair`: a mirrored topic or bronze after a loss, a source whose server was restored or promoted."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_assets.cli.declared_sources import chosen_sources, complete_source, complete_topic, table_of
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.cli.verb_frame import OneChain, say, verb
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain

if TYPE_CHECKING:
    from cdc_assets.chain.model_repair import ModelRepair
    from cdc_assets.chain.table_reload import TableReload
    from cdc_assets.registry.source_declaration import BaseSource, CapturedSource

app = typer.Typer(no_args_is_help=True, help="Mend what a red check has named.")


@app.command("mirror")
@verb()
def mirror(
    platform: Platform,
    topic: Annotated[str, typer.Argument(help="The topic's name on the core cluster.", autocompletion=complete_topic)],
    snapshot: Annotated[bool, typer.Option(help="Read the table again, so that what is lost for good is mended.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Copy a topic again and read its table again, as far as its findings ask for it; exit 1 while something is wrong."""
    from cdc_assets.capture.mirror_losses import plan, repair

    chosen = plan(platform, chosen_sources(), topic, snapshot=snapshot)
    state = chosen.state if dry_run else repair(platform, chosen, say)
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
@verb()
def bronze(
    chain: OneChain,
    table: Annotated[
        str | None, typer.Argument(help="The table, as in the database or in the lake; all of the source without.")
    ] = None,
    anew: Annotated[
        bool,
        typer.Option(
            "--anew", help="Also if nothing is lost. Silver drops rows that the source does not have and no event deletes."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Read a table again, and go on in a new epoch: for a lake's topic that has lost records which bronze had not read.

    Without a table: each of the source whose topic has. One snapshot reads them all. A topic that was made again and begins
    with the whole table, as behind a new connector, is taken as it is.
    """
    from cdc_assets.chain.table_reload import ask_source, plan_reloads, reload_bronze

    source = chain.source
    tables = list(source.tables) if table is None else [table_of(source, table)]
    plans = plan_reloads(chain, tables, anew=anew)
    epochs = {plan.topic: plan.epoch for plan in plans}
    if to_reload := [plan for plan in plans if plan.wanted]:
        asked_source = ask_source(source, to_reload[0].gap or to_reload[0].topic)
        if not dry_run:
            epochs |= reload_bronze(Chain(chain.platform, asked_source), to_reload, say)
    if is_data(output):
        reloaded = [_reload_document(source, plan, epochs[plan.topic], dry_run=dry_run) for plan in plans]
        print_document(reloaded if table is None else reloaded[0], output)
        return
    for plan in plans:
        _print_reload(plan, plan.next_epoch if dry_run else epochs[plan.topic], dry_run=dry_run)


@app.command("model")
@verb()
def model(
    source: Annotated[
        str, typer.Argument(help="The source's name in the registry, or its connector's.", autocompletion=complete_source)
    ],
    platform: Platform,
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="[TABLE]...", help="Tables that are read again in any case.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Go past a statement that Debezium cannot read, and read those tables again whose columns it takes for others.

    For sources that have a binlog. Their connector gets the server's own definitions. The source's schema is not touched.
    """
    from cdc_assets.chain.model_repair import plan_repair, repair_models

    declared = _with_binlog(source)
    chosen_tables = [table_of(declared, name) for name in tables or ()]
    if dry_run:
        done = plan_repair(Chain(platform, declared), chosen_tables)
    else:
        done = repair_models(Chain(platform, declared), chosen_tables, say)
    if is_data(output):
        print_document(_model_document(declared, done), output)
        return
    for passed in done.passed:
        shown = " ".join(passed.statement.split())
        print(f"{'would pass' if dry_run else 'passed'} over the statement at {passed.place or 'an unknown place'}: {shown}")
    for table in done.tables:
        print(f"{'would read' if dry_run else 'read'} {table.name} again, by the server's columns")
    if not (done.passed or done.tables):
        print(f"{declared.name}: Debezium reads its tables by the server's columns")


def _source_name(name: str) -> str:
    """Of a source, or of the one whose connector is called so."""
    from cdc_assets.registry import names

    by_connector = {names.connector_name(source): source.name for source in chosen_sources() if source.captured}
    return by_connector.get(name, name)


def _with_binlog(name: str) -> CapturedSource:
    from cdc_assets.capture.preflight.table_models import reads_statements
    from cdc_assets.registry.errors import ServiceError

    (declared,) = chosen_sources([_source_name(name)])
    reader = reads_statements(declared)
    if reader is None:
        raise ServiceError(f"source {declared.name} is of kind {declared.kind_name}: its connector makes no model by statements")
    if reader.managed_by == "gitops":
        raise ServiceError(f"source {reader.name} is managed_by gitops: its connector's config is written by its operator alone")
    return reader


def _model_document(source: CapturedSource, done: ModelRepair) -> dict[str, object]:
    from cdc_assets.registry import names

    return {
        "source": source.name,
        "passed": [asdict(passed) for passed in done.passed],
        "read_again": [names.table_name(table) for table in done.tables],
        "epochs": done.epochs,
    }


def _print_reload(plan: TableReload, epoch: int, *, dry_run: bool) -> None:
    print(plan.gap or f"{plan.topic}: bronze has not lost anything")
    if plan.wanted and plan.is_there:
        goes = "would go" if dry_run else "goes"
        print(f"its topic begins with the whole table {plan.table.name}; bronze {goes} on in epoch {epoch}")
    elif plan.wanted:
        print(f"{'would read' if dry_run else 'read'} {plan.table.name} again; bronze goes on in epoch {epoch}")


def _reload_document(source: BaseSource, plan: TableReload, epoch: int, *, dry_run: bool) -> dict[str, object]:
    from cdc_assets.registry import names

    facts = {"source": source.name, "table": names.table_name(plan.table), "topic": plan.topic, "gap": plan.gap}
    done = plan.wanted and not dry_run
    return {**facts, "epoch": epoch, "repaired": done, "read_again": done and not plan.is_there}


@app.command("source")
@verb()
def source(
    name: Annotated[str, typer.Argument(metavar="SOURCE", help="The source, or its connector.", autocompletion=complete_source)],
    platform: Platform,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Open a new epoch with every table read again: for a source whose server was restored, or lost its slot."""
    from cdc_assets.capture.incarnations.server_verdict import verdict
    from cdc_assets.capture.kind_capture import capture_of
    from cdc_assets.chain.new_epoch import STEPS, open_epoch
    from cdc_assets.registry.errors import RefusalError

    (declared,) = chosen_sources([_source_name(name)])
    name, asked_source = declared.name, declared.captured
    if asked_source is None or capture_of(asked_source).incarnation is None:
        raise RefusalError(
            f"source {name} is no PostgreSQL, MariaDB or MySQL database: its incarnations are not told "
            "(docs/explanation/incarnations.md)"
        )
    captured = Chain(platform, asked_source)
    place_verdict = verdict(captured)
    other = place_verdict.kind == "other"
    epochs = {}
    if other and not dry_run:
        epochs = dict(open_epoch(captured, place_verdict.reason, say))
    if is_data(output):
        steps = list(STEPS.values()) if other else []
        print_document({"source": name, **asdict(place_verdict), "steps": steps, "epochs": epochs}, output)
        return
    print(f"{name}: {place_verdict.reason or 'its server is the one that was read'}")
    for number, step in enumerate(STEPS.values() if other and dry_run else (), 1):
        print(f"{number} {step}")
    for topic, epoch in sorted(epochs.items()):
        print(f"{topic}: epoch {epoch}")
