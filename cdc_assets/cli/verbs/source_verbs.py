"""`cdc adopt`, `cdc onboard`, `cdc offboard` and `cdc remove`: sources and tables into capture, and out of it.

Each prints its steps before it takes them; where git is the way, every commit. Adopting writes the registry entry and nothing to
Connect. Removing keeps the data unless it is named.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer
from rich.console import Console

from cdc_assets.capture.onboarding.onboarding_state import Journal, Route
from cdc_assets.cli.declared_sources import chosen_sources, complete_source, tell_experimental
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.cli.progress import console
from cdc_assets.cli.verb_frame import say, verb
from cdc_assets.clients.platform import Platform
from cdc_assets.recovery.removal import GO, STAY, RemovalChoice
from cdc_assets.registry import settings
from cdc_assets.registry.errors import CdcAssetsError, RefusalError
from spark.errors import quantity

if TYPE_CHECKING:
    from cdc_assets.capture.adoption.adopted_source import Adoption
    from cdc_assets.capture.adoption.setting_differences import SettingDifference
    from cdc_assets.capture.onboarding import onboarding_run
    from cdc_assets.deploy.onboarding_commits import OnboardingCommit
    from cdc_assets.recovery.removal import Removal

_OURS = "Declare none of its settings: the next `cdc apply` brings ours, and restarts it."


@dataclass(frozen=True)
class AdoptOptions:
    """What is adopted, and as what."""

    source: Annotated[str, typer.Option("--source", help="The source's name; default: by its topic prefix.")] = ""
    cluster: Annotated[str, typer.Option(help="The core cluster that it is at, where there are several.")] = "core"
    ours: Annotated[bool, typer.Option("--ours", help=_OURS)] = False


@verb()
def adopt(
    platform: Platform,
    connector: Annotated[str, typer.Argument(help="A connector of Debezium's on a core's Connect.")],
    chosen: AdoptOptions,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Without a terminal this is needed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what was read and what differs; write nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Take over a running connector: read it, its slot, topics, offsets and mirror, and write its registry entry.

    The connector is left as it is, and is not restarted. What differs from ours is shown, and declared in the entry.
    """
    from cdc_assets.capture.adoption.adopted_source import look, write

    adoption = look(
        platform, connector, settings.sources_folder(), source=chosen.source, cluster=chosen.cluster, ours=chosen.ours
    )
    if not is_data(output):
        _print(adoption)
    if not dry_run:
        if not yes:
            _confirm(f"cdc adopt {connector}", f"Write {adoption.file}?", output)
        write(adoption)
    if is_data(output):
        print_document({"dry_run": dry_run, "written": not dry_run, **adoption.to_json()}, output)
    elif not dry_run:
        _print_next(adoption, ours=chosen.ours)


def _confirm(command: str, question: str, output: str) -> None:
    """Raises BadParameter where nobody can be asked."""
    if not sys.stdin.isatty() or is_data(output):
        raise typer.BadParameter(f"nobody can be asked here: {command} --yes, or --dry-run to look")
    typer.confirm(question, abort=True)


def _print(found: Adoption) -> None:
    running, source = found.running, found.source
    print(f"{running.name} at {running.url}: kind {running.kind.name}, RUNNING; source {source.name} in {found.file}")
    for name, facts in found.found.facts.items():
        print(f"  {name:12} {', '.join(f'{key}: {value}' for key, value in facts.items())}")
    for entry in running.offsets:
        print(f"  {'offset':12} {entry.get('partition')} at {entry.get('offset')}")
    for name, state in found.topics.items():
        print(f"  {'topic':12} {name}: {state.ranges if state else 'not there yet'}")
    if found.mirror:
        copies = quantity(len(found.copies), "topic")
        print(f"  {'mirror':12} {found.mirror.name}, copies {found.mirror.alias}.*: {copies} on the lake's cluster")
    _print_differences(running.name, found.differences)
    if found.mirror:
        _print_differences(found.mirror.name, found.mirror_differences)
    for note in found.notes:
        print(f"note: {note}")


def _print_differences(name: str, rows: Sequence[SettingDifference]) -> None:
    print(f"{name}: " + (f"{quantity(len(rows), 'setting')} other than ours" if rows else "nothing differs from ours"))
    for difference in rows:
        print(f"  {difference.weight:6} {difference.setting}")
        print(f"         theirs: {_shorten(difference.theirs)}")
        print(f"         ours:   {_shorten(difference.ours)}")
        print(f"         {difference.meaning}")


def _shorten(value: str | None) -> str:
    text = "not set" if value is None else value
    return text if len(text) <= 100 else f"{text[:97]}..."


def _print_next(found: Adoption, *, ours: bool) -> None:
    name = found.source.name
    print(f"written: {found.file}; connector {found.running.name} is as it was, and was not restarted")
    if ours:
        print(f"next: cdc apply {name}, which brings our settings and restarts the connector")
    print(f"next: cdc diff {name}; cdc reload; cdc status")


@dataclass(frozen=True)
class AskedOnboarding:
    """What is to be taken in or out; `watch`: others apply it from git, as rendered for `deployment` into the repository's folder
    `out` (None: the one that Argo CD applies)."""

    source: str
    tables: list[str] | None
    route: Route
    again: bool
    watch: bool = False
    deployment: Path = Path()
    out: str | None = None


def commits(
    wish: AskedOnboarding, tables: Sequence[str], *, anchor: int | None = 0, waited: bool = True
) -> list[OnboardingCommit]:
    """In order; none to be offboarded. `waited`: each is to be waited for.

    Raises:
        RefusalError: what cannot be rendered.
    """
    from cdc_assets.deploy.manifest import load_deployment
    from cdc_assets.deploy.onboarding_commits import TablesToOnboard, onboarding_commits
    from cdc_assets.deploy.rendered_files import connectors_to_render
    from cdc_assets.deploy.strimzi import name_warnings

    if wish.route == "offboard":
        return []
    sources, platform = chosen_sources(), load_deployment(wish.deployment)
    folder = wish.out if wish.out is not None else platform.argocd.path if platform.argocd else ""
    out = "/".join(Path(folder).parts)
    captures = (c for c in connectors_to_render(sources, platform) if c.source.name == wish.source and c.role == "capture")
    if waited and (warnings := name_warnings(captures)):
        raise RefusalError(
            f"{warnings[0]}: apply the commits of --dry-run by hand, or give the source a name without underscores"
        )
    tables_to_onboard = TablesToOnboard(wish.source, tables, wish.route, anchor)
    return onboarding_commits(sources, platform, tables_to_onboard, out=out)


def print_plan(wish: AskedOnboarding, output: str) -> None:
    """Nothing is begun or written; the source is asked what the first step would ask it.

    Raises:
        RefusalError: what the first step would refuse, such as a table that does not exist.
    """
    from cdc_assets.capture.onboarding import onboarding_run

    running = Journal.of(wish.source).running if not wish.tables else None
    done: dict[str, Any] = running.done if running else {}
    if running:
        wish = replace(wish, tables=[*running.tables], route=running.route, watch=running.watched)
    tables = wish.tables or []
    steps = onboarding_run.plan(wish.source, tables, wish.route, watched=wish.watch)
    if tables and not running:
        _judge(wish, tables)
    anchor = done["stop"].get("anchor") if "stop" in done else None
    commits_by_step = {c.step: c for c in commits(wish, tables, anchor=anchor, waited=False)} if wish.watch and tables else {}
    if is_data(output):
        rows: list[dict[str, Any]] = [{"step": step.name, "what": step.what, "done": step.name in done} for step in steps]
        for row in rows:
            if commit := commits_by_step.get(str(row["step"])):
                shown = {"title": commit.title, "then": commit.wait, "later": commit.later or None, "patch": commit.patch}
                row["commit"] = shown
        print_document(rows, output)
        return
    print(f"{wish.source}: {', '.join(tables)} by route {wish.route}")
    for number, step in enumerate(steps, 1):
        print(f"{number:2} {step.name:14} {step.what}{' (done)' if step.name in done else ''}")
    for number, commit in enumerate(commits_by_step.values(), 1):
        title = f"commit {number} of {len(commits_by_step)}, waited for by step {commit.step}: {commit.title}"
        print(f"\n# {title}\n# then: {commit.wait}")
        if commit.later:
            print(f"# not to be applied as it is: {commit.later}, and printed then")
        print(commit.patch, end="")


def _judge(wish: AskedOnboarding, tables: list[str]) -> None:
    from cdc_assets.capture.onboarding import onboarding_run

    try:
        onboarding_run.judge(Platform(), wish.source, tables, wish.route)
    except RefusalError:
        raise
    except CdcAssetsError as error:
        # A plan is written for git where nothing of the platform can be reached, too; what it does not know is said.
        print(f"cdc: whether {', '.join(tables)} can be taken in was not asked: {error}", file=sys.stderr)


Source = Annotated[str, typer.Argument(help="The source's name in the registry.", autocompletion=complete_source)]
Tables = Annotated[list[str] | None, typer.Argument(help="schema.table, as in the database.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the one that was begun.")]
Rollback = Annotated[bool, typer.Option("--rollback", help="Take back what the one that was begun has done.")]
DryRunOfPlan = Annotated[bool, typer.Option("--dry-run", help="Print the plan (with --watch: every commit), and do nothing.")]

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
    dry_run: DryRunOfPlan = False,
    output: Output = Format.text,
) -> None:
    """Take tables into a running connector without losing a change. Each step is kept, so --resume goes on after a crash.

    Exit 1 when silver keeps rows that were deleted while a table was out of capture; the last line names what takes them out.
    """
    routes = [name for name in get_args(Route) if name != "offboard"]
    if route not in routes:
        raise typer.BadParameter(f"no route {route!r}; there are: {', '.join(routes)}")
    if out is not None and (Path(out).is_absolute() or ".." in Path(out).parts):
        raise typer.BadParameter(f"--out {out}: a folder of the repository, such as deploy; patches name files from its root")
    chosen = AskedOnboarding(source, tables, cast(Route, route), again, watch, deployment, out)
    _do(chosen, resume=resume, rollback=rollback, dry_run=dry_run, output=output)


def offboard(
    source: Source,
    tables: Tables = None,
    resume: Resume = False,
    dry_run: DryRunOfPlan = False,
    output: Output = Format.text,
) -> None:
    """Take tables out of a running connector; topics and what is in the lake stay."""
    _do(AskedOnboarding(source, tables, "offboard", True), resume=resume, rollback=False, dry_run=dry_run, output=output)


def _do(wish: AskedOnboarding, *, resume: bool, rollback: bool, dry_run: bool, output: str) -> None:
    from cdc_assets.capture.onboarding import onboarding_run
    from cdc_assets.defs.source_chain import take_in_step

    source, tables, route = wish.source, wish.tables, wish.route
    tell_experimental(chosen_sources([source]))
    if bool(tables) == (resume or rollback):
        raise typer.BadParameter("name tables to begin, or give --resume or --rollback alone to end what was begun")
    if dry_run:
        print_plan(wish, output)
        return
    if wish.watch and tables:
        # What cannot be rendered is told before anything is begun.
        commits(wish, tables)
    if tables and onboarding_run.begin(source, tables, route, again=wish.again, watched=wish.watch) is None:
        _answer(onboarding_run.Outcome(source, tuple(tables), route, "nothing to do", {}), output)
        return
    if rollback:
        _answer(onboarding_run.roll_back(Platform(), source, _say), output)
        return
    console = Console(stderr=is_data(output), highlight=False, markup=False, soft_wrap=True)

    def before(step: str) -> None:
        console.print(_patch_of_step(wish, step), end="")

    _answer(onboarding_run.go_on(Platform(), source, _say, before, take_in=take_in_step), output)


def _say(text: str) -> None:
    console.print(text, markup=False)


def _patch_of_step(wish: AskedOnboarding, step: str) -> str:
    # The patch that the step waits for; rendered only then: a temporary connector's holds where the running one stopped.
    running = Journal.of(wish.source).running
    if running is None or not running.watched:
        return ""
    anchor = running.done.get("stop", {}).get("anchor", 0)
    commits_by_step = {c.step: c for c in commits(replace(wish, route=running.route), list(running.tables), anchor=anchor)}
    return f"# {commits_by_step[step].title}\n{commits_by_step[step].patch}" if step in commits_by_step else ""


def _answer(outcome: onboarding_run.Outcome, output: str) -> None:
    if is_data(output):
        print_document(outcome.to_json(), output)
    else:
        for name, facts in outcome.steps.items():
            print(f"{name:14} {', '.join(f'{key}: {value}' for key, value in facts.items())}")
        print(f"{outcome.source}: {', '.join(outcome.tables)} {outcome.state}")
    for sentence in outcome.left_over:
        print(sentence, file=sys.stderr)
    if outcome.left_over:
        raise typer.Exit(1)


_KEEP = f"Of {', '.join(GO)}: what is to stay. Several with commas."
_DELETE = f"Of {', '.join(STAY)}: what is to go as well. Several with commas."


def remove(
    source: Annotated[str, typer.Argument(help="The source's name in the registry.", autocompletion=complete_source)],
    keep: Annotated[list[str] | None, typer.Option("--keep", help=_KEEP)] = None,
    delete: Annotated[list[str] | None, typer.Option("--delete", help=_DELETE)] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask. Without a terminal this is needed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, and do nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Remove a source: connectors, what its database keeps for us, its registry file. Data stays unless named.

    After a kill, the same command goes on. Exit 1 when the role may not remove something: then the statement is printed.
    """
    from cdc_assets.recovery.removal import Removal, find_declaration, plan_removal, remove_source

    try:
        choice = RemovalChoice.of(keep or (), delete or ())
    except RefusalError as error:
        raise typer.BadParameter(str(error)) from None
    declared = find_declaration(settings.sources_folder(), source)
    if declared is None:
        chosen_sources([source])
        return
    tell_experimental([declared.source])
    rows = plan_removal(declared.source, choice)
    if not is_data(output):
        _print_plan(f"{source}, declared in {declared.file}", rows)
    if not dry_run and not yes:
        _confirm(f"cdc remove {source} …", "Remove what the plan says?", output)
    removal = Removal(Platform(), declared, choice, say)
    if not dry_run:
        remove_source(removal)
    if is_data(output):
        print_document({"source": source, "dry_run": dry_run, "plan": rows, **_outcome(removal)}, output)
    elif not dry_run:
        _print_outcome(removal)
    if any(trace.costs for trace in removal.left):
        raise typer.Exit(1)


def _print_plan(title: str, rows: list[dict[str, Any]]) -> None:
    print(title)
    for row in rows:
        print(f"  {row['action']:7} {row['word']:12} {row['what']}")


def _outcome(removal: Removal) -> dict[str, Any]:
    words = {"left": True, "stays": False}
    traces = {word: [trace.to_json() for trace in removal.left if trace.costs == costs] for word, costs in words.items()}
    return {"gone": removal.gone, **traces}


def _print_outcome(removal: Removal) -> None:
    for text in removal.gone or ["nothing was there any more"]:
        print(f"gone: {text}")
    for trace in removal.left:
        if trace.costs:
            print(f"left: {trace.what}; somebody who may removes it: {trace.statement}")
        else:
            print(f"stays: {trace.what}; it costs nothing, and goes by: {trace.statement} (or --delete {trace.word})")
