"""Tables into a running connector where git is the way: the steps as commits in order, each with what to wait for after it.

Transport first (topics, rights, mirror), then the connector: so that nothing arrives where nobody may write or carry it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cdc_assets.capture.connectors.declared_connectors import DeclaredConnector
from cdc_assets.capture.connectors.postgresql_connector import temporary_config
from cdc_assets.deploy.manifest import STAND_IN, Deployment, to_yaml
from cdc_assets.deploy.rendered_files import connectors_to_render, file_diff, render, with_list
from cdc_assets.deploy.strimzi import kafka_connector
from cdc_assets.registry import names, settings
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.kinds import kind_of
from cdc_assets.registry.source_declaration import BaseSource, Source
from cdc_assets.registry.table_declaration import Table

Files = Mapping[str, str]
_CONNECTORS = "strimzi/connectors/"
ANCHOR_LATER = "POSITION-OF-THE-STOP"
"""Stands in a preview for the temporary connector's anchor, which only the stopped connector tells. No connector of it passes
(onboarding.connector_steps)."""


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


@dataclass(frozen=True)
class TablesToOnboard:
    """Tables of a source, by their names in the registry, and how they are taken into its connector.

    `anchor` is the log position behind which the temporary connector's rows stand (route temporary only): the last commit that
    the running connector had streamed when it was stopped; None: a placeholder (`OnboardingCommit.later`).
    """

    source: str
    tables: Sequence[str]
    route: Literal["incremental", "blocking", "temporary"] = "incremental"
    anchor: int | None = 0


@dataclass(frozen=True)
class _SourceChange:
    """The source with its `new` tables, the registry `before` them, and what both are rendered for."""

    source: Source
    new: tuple[Table, ...]
    before: Sequence[BaseSource]
    deployment: Deployment


def onboarding_commits(
    sources: Sequence[BaseSource], deployment: Deployment, wanted: TablesToOnboard, *, out: str = ""
) -> list[OnboardingCommit]:
    """The commits that take the tables into their source; `sources` is the registry with them in it. `out` is the folder of the
    repository that the files are in.

    The running connector goes on before the tables are read: it stands still from one commit to the next, no longer (ADR 16).

    Raises RefusalError: when the source or one of the tables is not in the registry.
    """
    change = _change(sources, deployment, wanted)
    was, will = _files(change.before, deployment), _files(sources, deployment)
    source, what, of = wanted.source, ", ".join(wanted.tables), names.connector_name(change.source)
    capture = f"{_CONNECTORS}{of}.yaml"
    transport = {**will, capture: was[capture]}
    first = f"{source}: topics, rights and mirror for {what}"
    steps: list[tuple[str, str, Files, str]] = [
        ("topics", first, transport, f"the topics of {what} exist; {of} still runs as it was")
    ]
    both = (f"{source}: old and new tables in {of}", will, f"{of} and its task run")
    if wanted.route == "temporary":
        steps += _temporary(change, transport, both, ANCHOR_LATER if wanted.anchor is None else wanted.anchor)
    else:
        steps.append(("connector", *both))
    commits, files = [], was
    for step, title, tree, wait in steps:
        commits.append(OnboardingCommit(step, title, tree, patch(files, tree, out), wait))
        files = tree
    return commits


def _change(sources: Sequence[BaseSource], deployment: Deployment, wanted: TablesToOnboard) -> _SourceChange:
    after = _find_source(sources, wanted.source)
    new = tuple(_table(after, name) for name in wanted.tables)
    old = tuple(table for table in after.tables if table not in new)
    if not old:
        every = ", ".join(wanted.tables)
        raise RefusalError(f"{after.name}: {every} are all of its tables; there is nothing to take them into: cdc render")
    before = [s.model_copy(update={"tables": old}) if s is after else s for s in sources]
    kind = after.database.kind
    if wanted.route == "temporary" and not kind_of(after).has_slot:
        raise RefusalError(f"{after.name}: the temporary connector is for PostgreSQL; {kind} goes by route incremental")
    return _SourceChange(after, new, before, deployment)


def patch(before: Files, after: Files, out: str = "") -> str:
    """What `git apply` makes of one tree the other, in the repository's root; `out` is their folder there."""
    paths = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    return "".join(file_diff(path, before.get(path), after.get(path), out) for path in paths)


def _files(sources: Sequence[BaseSource], deployment: Deployment) -> Files:
    return with_list("strimzi", render("strimzi", sources, deployment))


def _temporary(
    change: _SourceChange, files: Files, both: tuple[str, Files, str], anchor: int | str
) -> list[tuple[str, str, Files, str]]:
    source, new, before, deployment = change.source, change.new, change.before, change.deployment
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
    named_source = next((s for s in sources if s.name == name), None)
    if named_source is None or named_source.asked is None:
        raise RefusalError(f"no captured source {name}; there are: {', '.join(s.name for s in sources if s.asked)}")
    return named_source.asked


def _table(source: Source, name: str) -> Table:
    try:
        return source.table(name)
    except KeyError as error:
        raise RefusalError(f"{error.args[0]}: declare it first") from error
