"""`cdc render`: the registry as manifests, for those who deploy from git."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, cast

import typer

from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.cli.verb_frame import verb
from cdc_assets.deploy.manifest import load_deployment
from cdc_assets.deploy.monitoring_files import grafana_files, prometheus_files
from cdc_assets.deploy.rendered_files import TARGETS, Target, apply, changes, connectors_to_render, render
from cdc_assets.deploy.spark_server_files import spark_files
from cdc_assets.deploy.strimzi import name_warnings
from cdc_assets.registry import settings
from cdc_assets.registry.loader import load_sources
from cdc_assets.registry.source_declaration import BaseSource
from spark.errors import quantity

_OF_REGISTRY: dict[str, Callable[[Sequence[BaseSource]], dict[str, str]]] = {
    "spark": lambda _: spark_files(),
    "prometheus": prometheus_files,
    "grafana": grafana_files,
}
"""Targets that need no deployment file."""


@verb()
def render_verb(
    target: Annotated[str, typer.Option(help="strimzi, connect, argocd, spark, prometheus or grafana")],
    out: Annotated[Path, typer.Option(help="The folder that is committed; files go to <out>/<target>/.")],
    deployment: Annotated[
        Path, typer.Option(help="Namespaces, clusters, addresses (docs/how-to/gitops.md); of the first three.")
    ] = Path("deployment.yaml"),
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 and show any difference.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing; show the difference.")] = False,
    output: Output = Format.text,
) -> None:
    """Write manifests from the registry, the same ones each time; nothing secret is in them."""
    if target not in (targets := (*TARGETS, *_OF_REGISTRY)):
        raise typer.BadParameter(f"no target {target!r}; there are: {', '.join(targets)}")
    if target in _OF_REGISTRY:
        files = _OF_REGISTRY[target](load_sources(settings.sources_folder()))
    else:
        files = _manifests(cast(Target, target), deployment)
    file_changes = changes(out, target, files)
    if not (check or dry_run):
        apply(out, file_changes)
    if is_data(output):
        print_document([{"path": change.path, "action": change.action} for change in file_changes], output)
    elif check or dry_run:
        print("".join(change.diff() for change in file_changes), end="")
    else:
        for change in file_changes:
            print(f"{change.action:7}{out / change.path}")
    became = "differ" if check or dry_run else "changed"
    print(f"{quantity(len(files), 'file')} rendered; in {out / target} {len(file_changes)} {became}", file=sys.stderr)
    if check and file_changes:
        raise typer.Exit(1)


def _manifests(target: Target, deployment: Path) -> dict[str, str]:
    sources, platform = load_sources(settings.sources_folder()), load_deployment(deployment)
    files = render(target, sources, platform)
    if target == "strimzi":
        own = ("capture",) if platform.mirror == "mirrormaker2" else ("capture", "mirror", "checkpoints", "heartbeats")
        connectors = (connector for connector in connectors_to_render(sources, platform) if connector.role in own)
        for note in [*name_warnings(connectors), *_owner_notes(sources)]:
            print(note, file=sys.stderr)
    return files


def _owner_notes(sources: Sequence[BaseSource]) -> list[str]:
    return [
        f"source {source.name} is managed_by: cdc: assets and cdc apply write its connectors too; declare managed_by: gitops"
        for source in sources
        if source.managed_by == "cdc"
    ]
