"""`cdc render`: the registry as manifests, for those who deploy from git."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, cast

import typer

from cdc_assets import settings
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry_files.loader import load_sources
from cdc_assets.render.connector import name_warnings
from cdc_assets.render.deployment import Deployment, load_deployment
from cdc_assets.render.grafana_files import grafana_files
from cdc_assets.render.prometheus_files import prometheus_files
from cdc_assets.render.rendered_files import apply, changes
from cdc_assets.render.spark_files import spark_files
from cdc_assets.render.tree import TARGETS, Target, connectors_to_render, render

_OF_REGISTRY: dict[str, Callable[[Sequence[BaseSource]], dict[str, str]]] = {
    "spark": lambda _: spark_files(),
    "prometheus": prometheus_files,
    "grafana": grafana_files,
}
"""Targets that need no deployment file."""


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
    if target not in (known := (*TARGETS, *_OF_REGISTRY)):
        raise typer.BadParameter(f"no target {target!r}; there are: {', '.join(known)}")
    if target in _OF_REGISTRY:
        files = _OF_REGISTRY[target](load_sources(settings.sources_folder()))
    else:
        files = _manifests(cast(Target, target), deployment)
    found = changes(out, target, files)
    if not (check or dry_run):
        apply(out, found)
    if is_data(output):
        print_document([{"path": each.path, "action": each.action} for each in found], output)
    elif check or dry_run:
        print("".join(each.diff() for each in found), end="")
    else:
        for each in found:
            print(f"{each.action:7}{out / each.path}")
    became = "differ" if check or dry_run else "changed"
    print(f"{quantity(len(files), 'file')} rendered; in {out / target} {len(found)} {became}", file=sys.stderr)
    if check and found:
        raise typer.Exit(1)


def _manifests(target: Target, deployment: Path) -> dict[str, str]:
    sources, platform = load_sources(settings.sources_folder()), load_deployment(deployment)
    files = render(target, sources, platform)
    for told in [*_name_warnings(sources, platform), *_owner_notes(sources)] if target == "strimzi" else ():
        print(told, file=sys.stderr)
    return files


def _name_warnings(sources: Sequence[BaseSource], platform: Deployment) -> list[str]:
    own = ("capture",) if platform.mirror == "mirrormaker2" else ("capture", "mirror", "checkpoints", "heartbeats")
    return name_warnings(each for each in connectors_to_render(sources, platform) if each.role in own)


def _owner_notes(sources: Sequence[BaseSource]) -> list[str]:
    return [
        f"source {source.name} is managed_by: cdc: assets and cdc apply write its connectors too; declare managed_by: gitops"
        for source in sources
        if source.managed_by == "cdc"
    ]
