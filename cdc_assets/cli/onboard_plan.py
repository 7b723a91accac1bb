"""What an onboarding would do, printed before: its steps, and where git is the way every commit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cdc_assets.cli.output_formats import is_data, print_document
from cdc_assets.errors import CdcAssetsError, OnboardingError, RenderError
from cdc_assets.onboarding.state import Journal, Route

if TYPE_CHECKING:
    from cdc_assets.render.commits import OnboardingCommit


@dataclass(frozen=True)
class Asked:
    """What is to be taken in or out; `watch`: others apply it from git, as rendered for `deployment` into the repository's folder
    `out` (None: the one that Argo CD applies)."""

    source: str
    tables: list[str] | None
    route: Route
    again: bool
    watch: bool = False
    deployment: Path = Path()
    out: str | None = None


def commits(asked: Asked, tables: Sequence[str], *, anchor: int | None = 0, waited: bool = True) -> list[OnboardingCommit]:
    """In order; none to be offboarded. `waited`: each is to be waited for.

    Raises:
        RenderError: what cannot be rendered.
    """
    from cdc_assets.cli.chosen_sources import chosen_sources
    from cdc_assets.render.commits import TablesToOnboard, onboarding_commits
    from cdc_assets.render.connector import name_warnings
    from cdc_assets.render.deployment import load_deployment
    from cdc_assets.render.tree import connectors_to_render

    if asked.route == "offboard":
        return []
    sources, platform = chosen_sources(), load_deployment(asked.deployment)
    folder = asked.out if asked.out is not None else platform.argocd.path if platform.argocd else ""
    out = "/".join(Path(folder).parts)
    captures = (
        each for each in connectors_to_render(sources, platform) if each.source.name == asked.source and each.role == "capture"
    )
    if waited and (told := name_warnings(captures)):
        raise RenderError(f"{told[0]}: apply the commits of --dry-run by hand, or give the source a name without underscores")
    wanted = TablesToOnboard(asked.source, tables, asked.route, anchor)
    return onboarding_commits(sources, platform, wanted, out=out)


def print_plan(asked: Asked, output: str) -> None:
    """Nothing is begun or written; the source is asked what the first step would ask it.

    Raises:
        OnboardingError: what the first step would refuse, such as a table that does not exist.
    """
    from cdc_assets.onboarding import run

    running = Journal.of(asked.source).running if not asked.tables else None
    done: dict[str, Any] = running.done if running else {}
    if running:
        asked = replace(asked, tables=[*running.tables], route=running.route, watch=running.watched)
    tables = asked.tables or []
    steps = run.plan(asked.source, tables, asked.route, watched=asked.watch)
    if tables and not running:
        _judge(asked, tables)
    anchor = done["stop"].get("anchor") if "stop" in done else None
    found = {each.step: each for each in commits(asked, tables, anchor=anchor, waited=False)} if asked.watch and tables else {}
    if is_data(output):
        rows = [{"step": step.name, "what": step.what, "done": step.name in done} for step in steps]
        print_document([{**row, **_commit(found.get(str(row["step"])))} for row in rows], output)
        return
    print(f"{asked.source}: {', '.join(tables)} by route {asked.route}")
    for number, step in enumerate(steps, 1):
        print(f"{number:2} {step.name:14} {step.what}{' (done)' if step.name in done else ''}")
    for number, each in enumerate(found.values(), 1):
        print(f"\n# commit {number} of {len(found)}, waited for by step {each.step}: {each.title}\n# then: {each.wait}")
        if each.later:
            print(f"# not to be applied as it is: {each.later}, and printed then")
        print(each.patch, end="")


def _judge(asked: Asked, tables: list[str]) -> None:
    from cdc_assets.onboarding import run
    from cdc_assets.resources.platform import Platform

    try:
        run.judge(Platform(), asked.source, tables, asked.route)
    except OnboardingError:
        raise
    except CdcAssetsError as error:
        # A plan is written for git where nothing of the platform can be reached, too; what it does not know is said.
        print(f"cdc: whether {', '.join(tables)} can be taken in was not asked: {error}", file=sys.stderr)


def _commit(commit: OnboardingCommit | None) -> dict[str, Any]:
    if commit is None:
        return {}
    return {"commit": {"title": commit.title, "then": commit.wait, "later": commit.later or None, "patch": commit.patch}}
