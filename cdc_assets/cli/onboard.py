"""`cdc onboard` and `cdc offboard`: tables into a running connector, and out of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast, get_args

import typer
from rich.console import Console

from cdc_assets.cli.chosen_sources import chosen_sources, complete_source
from cdc_assets.cli.experimental import tell_experimental
from cdc_assets.cli.onboard_plan import Asked, commits, print_plan
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.cli.progress import console
from cdc_assets.onboarding.state import Journal, Route

if TYPE_CHECKING:
    from cdc_assets.onboarding import run

Source = Annotated[str, typer.Argument(help="The source's name in the registry.", autocompletion=complete_source)]
Tables = Annotated[list[str] | None, typer.Argument(help="schema.table, as in the database.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the one that was begun.")]
Rollback = Annotated[bool, typer.Option("--rollback", help="Take back what the one that was begun has done.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan (with --watch: every commit), and do nothing.")]

DEPLOYMENT = Path("deployment.yaml")
_OUT = "With --watch: the repository's folder that `cdc render --out` writes; patches name files in it. Default: argocd's path."


def onboard(
    source: Source,
    tables: Tables = None,
    route: Annotated[str, typer.Option(help="incremental, blocking or temporary")] = "incremental",
    again: Annotated[bool, typer.Option("--again", help="Read captured tables once more.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Apply nothing: print commits for git, and wait for each.")] = False,
    deployment: Annotated[Path, typer.Option(help="With --watch: what is rendered for (docs/how-to/gitops.md).")] = DEPLOYMENT,
    out: Annotated[str | None, typer.Option(help=_OUT)] = None,
    resume: Resume = False,
    rollback: Rollback = False,
    dry_run: DryRun = False,
    output: Output = Format.text,
) -> None:
    """Take tables into a running connector without losing a change. Each step is kept, so --resume goes on after a crash."""
    routes = [name for name in get_args(Route) if name != "offboard"]
    if route not in routes:
        raise typer.BadParameter(f"no route {route!r}; there are: {', '.join(routes)}")
    if out is not None and (Path(out).is_absolute() or ".." in Path(out).parts):
        raise typer.BadParameter(f"--out {out}: a folder of the repository, such as deploy; patches name files from its root")
    chosen = Asked(source, tables, cast(Route, route), again, watch, deployment, out)
    _do(chosen, resume=resume, rollback=rollback, dry_run=dry_run, output=output)


def offboard(
    source: Source,
    tables: Tables = None,
    resume: Resume = False,
    dry_run: DryRun = False,
    output: Output = Format.text,
) -> None:
    """Take tables out of a running connector; topics and what is in the lake stay."""
    _do(Asked(source, tables, "offboard", True), resume=resume, rollback=False, dry_run=dry_run, output=output)


def _do(asked: Asked, *, resume: bool, rollback: bool, dry_run: bool, output: str) -> None:
    from cdc_assets.defs.declared_chains import take_in_step
    from cdc_assets.onboarding import run
    from cdc_assets.resources.platform import Platform

    source, tables, route = asked.source, asked.tables, asked.route
    tell_experimental(chosen_sources([source]))
    if bool(tables) == (resume or rollback):
        raise typer.BadParameter("name tables to begin, or give --resume or --rollback alone to end what was begun")
    if dry_run:
        print_plan(asked, output)
        return
    if asked.watch and tables:
        # What cannot be rendered is told before anything is begun.
        commits(asked, tables)
    if tables and run.begin(source, tables, route, again=asked.again, watched=asked.watch) is None:
        _answer(run.Outcome(source, tuple(tables), route, "nothing to do", {}), output)
        return
    if rollback:
        _answer(run.roll_back(Platform(), source, _say), output)
        return
    told = Console(stderr=is_data(output), highlight=False, markup=False, soft_wrap=True)

    def before(step: str) -> None:
        told.print(_commit(asked, step), end="")

    _answer(run.go_on(Platform(), source, _say, before, take_in=take_in_step), output)


def _say(text: str) -> None:
    console.print(text, markup=False)


def _commit(asked: Asked, step: str) -> str:
    """The patch that the step waits for; rendered only then: a temporary connector's holds where the running one stopped."""
    running = Journal.of(asked.source).running
    if running is None or not running.watched:
        return ""
    anchor = running.done.get("stop", {}).get("anchor", 0)
    found = {each.step: each for each in commits(replace(asked, route=running.route), list(running.tables), anchor=anchor)}
    return f"# {found[step].title}\n{found[step].patch}" if step in found else ""


def _answer(outcome: run.Outcome, output: str) -> None:
    if is_data(output):
        print_document(outcome.to_json(), output)
        return
    for name, facts in outcome.steps.items():
        print(f"{name:14} {', '.join(f'{key}: {value}' for key, value in facts.items())}")
    print(f"{outcome.source}: {', '.join(outcome.tables)} {outcome.state}")
