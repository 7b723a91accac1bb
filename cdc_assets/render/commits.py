"""Tables into a running connector where git is the way: the steps as commits in order, each with what to wait for after it.

Transport first (topics, rights, mirror), then the connector: so that nothing arrives where nobody may write or carry it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cdc_assets import names, settings
from cdc_assets.connectors.declared_connectors import DeclaredConnector
from cdc_assets.connectors.postgresql import temporary_config
from cdc_assets.errors import RenderError
from cdc_assets.registry.models import BaseSource, Source, Table
from cdc_assets.render.connector import kafka_connector
from cdc_assets.render.deployment import STAND_IN, Deployment
from cdc_assets.render.manifest import to_yaml
from cdc_assets.render.tree import connectors_to_render, render
from cdc_assets.render.written import file_diff, with_list

Files = Mapping[str, str]
_CONNECTORS = "strimzi/connectors/"
ANCHOR_LATER = "POSITION-OF-THE-STOP"
"""Stands in a preview for the temporary connector's anchor, which only the stopped connector tells. No connector of it passes
(onboarding.steps.watch.snapshot)."""


@dataclass(frozen=True)
class OnboardingCommit:
    """One commit: the step of an onboarding that waits for it, its message, the whole tree after it, its patch against the one
    before, and what to wait for next. `later`: what is a placeholder in the patch, and when it is known.
    """

    step: str
    title: str
    files: Files
    patch: str
    wait: str

    @property
    def later(self) -> str:
        """Empty where the patch is whole."""
        if ANCHOR_LATER not in self.patch:
            return ""
        return f"{ANCHOR_LATER} is the log position that was streamed last, known once commit 2 has stopped the connector"


def onboarding_commits(
    sources: Sequence[BaseSource],
    deployment: Deployment,
    *,
    source: str,
    tables: Sequence[str],
    route: Literal["incremental", "blocking", "temporary"] = "incremental",
    anchor: int | None = 0,
    out: str = "",
) -> list[OnboardingCommit]:
    """The commits that take `tables` into `source`; `sources` is the registry with them in it. `out` is the folder of the
    repository that the files are in.

    `anchor` is the log position behind which the temporary connector's rows stand (route temporary only): the last commit that
    the running connector had streamed when it was stopped; None: a placeholder (`Commit.later`). The running one goes on before
    the tables are read, so it stands still from one commit to the next and no longer (ADR 16).

    Raises:
        RenderError: when the source or one of the tables is not in the registry.
    """
    after = _find_source(sources, source)
    new = tuple(_table(after, name) for name in tables)
    old = tuple(table for table in after.tables if table not in new)
    if not old:
        raise RenderError(f"{source}: {', '.join(tables)} are all of its tables; there is nothing to take them into: cdc render")
    before = [s.model_copy(update={"tables": old}) if s is after else s for s in sources]
    if route == "temporary" and after.database.kind != "postgresql":
        raise RenderError(f"{source}: the temporary connector is for PostgreSQL; {after.database.kind} goes by route incremental")
    was, will = _files(before, deployment), _files(sources, deployment)
    capture = f"{_CONNECTORS}{names.connector_name(after)}.yaml"
    transport = {**will, capture: was[capture]}
    what, of = ", ".join(tables), names.connector_name(after)
    first = f"{source}: topics, rights and mirror for {what}"
    steps: list[tuple[str, str, Files, str]] = [
        ("topics", first, transport, f"the topics of {what} exist; {of} still runs as it was")
    ]
    both = (f"{source}: old and new tables in {of}", will, f"{of} and its task run")
    if route == "temporary":
        steps += _temporary(transport, both, before, after, new, deployment, ANCHOR_LATER if anchor is None else anchor)
    else:
        steps.append(("connector", *both))
    found, files = [], was
    for step, title, tree, wait in steps:
        found.append(OnboardingCommit(step, title, tree, patch(files, tree, out), wait))
        files = tree
    return found


def patch(before: Files, after: Files, out: str = "") -> str:
    """What `git apply` makes of one tree the other, in the repository's root; `out` is their folder there."""
    paths = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    return "".join(file_diff(path, before.get(path), after.get(path), out) for path in paths)


def _files(sources: Sequence[BaseSource], deployment: Deployment) -> Files:
    return with_list("strimzi", render("strimzi", sources, deployment))


def _temporary(
    files: Files,
    both: tuple[str, Files, str],
    before: Sequence[BaseSource],
    source: Source,
    new: tuple[Table, ...],
    deployment: Deployment,
    anchor: int | str,
) -> list[tuple[str, str, Files, str]]:
    """From the running connector's stop to the temporary one's end."""
    with settings.only(deployment.variables(secrets_folder=STAND_IN)):
        config = temporary_config(source, new, anchor=anchor)
    alone = DeclaredConnector(source, "capture", "core", config["name"], config)
    running = next(c for c in connectors_to_render(before, deployment) if c.role == "capture" and c.source.name == source.name)
    of, what = running.name, ", ".join(table.name for table in new)
    stopped = _with(files, running, deployment, state="stopped")
    reading = _with(both[1], alone, deployment)
    ended = _with(both[1], alone, deployment, state="stopped")
    return [
        ("stop", f"{source.name}: {of} stopped, its offsets kept", stopped, f"{of} is STOPPED"),
        ("go-on", *both),
        ("snapshot", f"{source.name}: {what} alone, by {alone.name}", reading, f"{alone.name} has ended its snapshot"),
        ("clear", f"{source.name}: {alone.name} stopped", ended, f"{alone.name} is STOPPED, and its offsets are reset"),
        ("remove", f"{source.name}: {alone.name} gone", both[1], f"{alone.name} is gone"),
    ]


def _with(files: Files, connector: DeclaredConnector, deployment: Deployment, *, state: str = "running") -> Files:
    tree = {**files, f"{_CONNECTORS}{connector.name}.yaml": to_yaml([kafka_connector(connector, deployment, state=state)])}
    return with_list("strimzi", {path: text for path, text in tree.items() if not path.endswith("/.cdc-render")})


def _find_source(sources: Sequence[BaseSource], name: str) -> Source:
    found = next((s for s in sources if s.name == name), None)
    if found is None or found.asked is None:
        raise RenderError(f"no captured source {name}; there are: {', '.join(s.name for s in sources if s.asked)}")
    return found.asked


def _table(source: Source, name: str) -> Table:
    try:
        return source.table(name)
    except KeyError as error:
        raise RenderError(f"{error.args[0]}: declare it first") from error
