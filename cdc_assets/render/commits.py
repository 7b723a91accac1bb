"""Tables into a running connector where git is the way: the steps as commits in order, each with what to wait for after it.

Transport first (topics, rights, mirror), then the connector: so that nothing arrives where nobody may write or carry it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from cdc_assets import names, settings
from cdc_assets.connectors.declared import DeclaredConnector
from cdc_assets.connectors.postgresql import temporary_config
from cdc_assets.errors import RenderError
from cdc_assets.registry.models import BaseSource, Source, Table
from cdc_assets.render.connector import kafka_connector
from cdc_assets.render.deployment import STAND_IN, Deployment
from cdc_assets.render.manifest import to_yaml
from cdc_assets.render.tree import declared, render
from cdc_assets.render.written import unified, with_list

Files = Mapping[str, str]
_CONNECTORS = "strimzi/connectors/"


@dataclass(frozen=True)
class Commit:
    """One commit: its message, the whole tree after it, its patch against the one before, and what to wait for next."""

    title: str
    files: Files
    patch: str
    wait: str


def onboarding_commits(
    sources: Sequence[BaseSource],
    deployment: Deployment,
    *,
    source: str,
    tables: Sequence[str],
    route: Literal["incremental", "blocking", "temporary"] = "incremental",
    anchor: int = 0,
) -> list[Commit]:
    """The commits that take `tables` into `source`; `sources` is the registry with them in it.

    `anchor` is the log position behind which the temporary connector's rows stand (route temporary only).

    Raises:
        RenderError: when the source or one of the tables is not in the registry.
    """
    after = _captured(sources, source)
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
    steps: list[tuple[str, Files, str]] = [
        (f"{source}: topics, rights and mirror for {what}", transport, f"the topics of {what} exist; {of} still runs as it was")
    ]
    if route == "temporary":
        steps.append(
            (
                f"{source}: {what} alone, by a temporary connector; {of} stopped, its offsets kept",
                _temporary(transport, sources, after, new, deployment, anchor),
                f"{names.temporary(of)} has ended its snapshot, and rows in the topics equal rows in the database",
            )
        )
    steps.append((f"{source}: old and new tables in {of}", will, f"{of} and its task run"))
    found, files = [], was
    for title, tree, wait in steps:
        found.append(Commit(title, tree, patch(files, tree), wait))
        files = tree
    return found


def patch(before: Files, after: Files) -> str:
    """What `git apply` makes of one tree the other."""
    paths = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    return "".join(unified(path, before.get(path), after.get(path)) for path in paths)


def _files(sources: Sequence[BaseSource], deployment: Deployment) -> Files:
    return with_list("strimzi", render("strimzi", sources, deployment))


def _temporary(
    files: Files, sources: Sequence[BaseSource], source: Source, new: tuple[Table, ...], deployment: Deployment, anchor: int
) -> Files:
    with settings.only(deployment.variables(secrets_folder=STAND_IN)):
        config = temporary_config(source, new, anchor=anchor)
    alone = DeclaredConnector(source, "capture", "core", config["name"], config)
    old = source.model_copy(update={"tables": tuple(table for table in source.tables if table not in new)})
    running = next(c for c in declared([old], deployment) if c.role == "capture")
    tree = {
        **files,
        f"{_CONNECTORS}{running.name}.yaml": to_yaml([kafka_connector(running, deployment, state="stopped")]),
        f"{_CONNECTORS}{alone.name}.yaml": to_yaml([kafka_connector(alone, deployment)]),
    }
    return with_list("strimzi", {path: text for path, text in tree.items() if not path.endswith("/.cdc-render")})


def _captured(sources: Sequence[BaseSource], name: str) -> Source:
    found = next((s for s in sources if s.name == name), None)
    if not isinstance(found, Source):
        raise RenderError(f"no captured source {name}; there are: {', '.join(s.name for s in sources if isinstance(s, Source))}")
    return found


def _table(source: Source, name: str) -> Table:
    try:
        return source.table(name)
    except KeyError as error:
        raise RenderError(f"{error.args[0]}: declare it first") from error
