"""`cdc onboard` and `cdc offboard`: tables into a running connector, and out of it."""

from __future__ import annotations

import json
from typing import Annotated, cast

import typer
from rich.console import Console

from cdc_assets.onboarding import run
from cdc_assets.onboarding.route import ROUTES
from cdc_assets.onboarding.state import Journal, Route

Source = Annotated[str, typer.Argument(help="The source's name in the registry.")]
Tables = Annotated[list[str] | None, typer.Argument(help="schema.table, as in the database.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the one that was begun.")]
Rollback = Annotated[bool, typer.Option("--rollback", help="Take back what the one that was begun has done.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan, and do nothing.")]
Output = Annotated[str, typer.Option("--output", "-o", help="text or json")]


def onboard(
    source: Source,
    tables: Tables = None,
    route: Annotated[str, typer.Option(help="incremental, blocking or temporary")] = "incremental",
    again: Annotated[bool, typer.Option("--again", help="Read tables once more that are in already.")] = False,
    resume: Resume = False,
    rollback: Rollback = False,
    dry_run: DryRun = False,
    output: Output = "text",
) -> None:
    """Take tables into a running connector without losing a change; each step is kept, so a crash is resumed."""
    if route not in ROUTES or route == "offboard":
        raise typer.BadParameter(f"no route {route!r}; there are: {', '.join(name for name in ROUTES if name != 'offboard')}")
    _do(source, tables, cast(Route, route), again=again, resume=resume, rollback=rollback, dry_run=dry_run, output=output)


def offboard(
    source: Source,
    tables: Tables = None,
    resume: Resume = False,
    dry_run: DryRun = False,
    output: Output = "text",
) -> None:
    """Take tables out of a running connector; topics and what is in the lake stay."""
    _do(source, tables, "offboard", again=True, resume=resume, rollback=False, dry_run=dry_run, output=output)


def _do(
    source: str, tables: list[str] | None, route: Route, *, again: bool, resume: bool, rollback: bool, dry_run: bool, output: str
) -> None:
    from cdc_assets.resources.platform import Platform

    if bool(tables) == (resume or rollback):
        raise typer.BadParameter("name tables to begin, or give --resume or --rollback alone to end what was begun")
    say = Console(stderr=True, highlight=False).print
    if dry_run:
        _print_plan(source, tables, route, output)
        return
    if tables and run.begin(source, tables, route, again=again) is None:
        _answer(run.Outcome(source, tuple(tables), route, "nothing to do", {}), output)
        return
    act = run.roll_back if rollback else run.go_on
    _answer(act(Platform(), source, lambda text: say(text)), output)


def _print_plan(source: str, tables: list[str] | None, route: Route, output: str) -> None:
    journal = Journal.of(source)
    running = journal.running if not tables else None
    done = running.done if running else {}
    if running:
        tables, route = list(running.tables), running.route
    steps = run.plan(source, tables or [], route)
    if output == "json":
        print(json.dumps([{"step": step.name, "what": step.what, "done": step.name in done} for step in steps], indent=2))
        return
    print(f"{source}: {', '.join(tables or [])} by route {route}")
    for number, step in enumerate(steps, 1):
        print(f"{number:2} {step.name:14} {step.what}{' (done)' if step.name in done else ''}")


def _answer(outcome: run.Outcome, output: str) -> None:
    if output == "json":
        print(json.dumps(outcome.to_json(), indent=2))
        return
    for name, facts in outcome.steps.items():
        print(f"{name:14} {', '.join(f'{key}: {value}' for key, value in facts.items())}")
    print(f"{outcome.source}: {', '.join(outcome.tables)} {outcome.state}")
