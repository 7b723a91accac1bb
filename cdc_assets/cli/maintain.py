"""`cdc maintain`: keeps tables of the lake small and fast, or says what it would do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_assets import settings
from cdc_assets.cli.chosen_sources import chosen_sources, complete_source
from cdc_assets.cli.exit_codes import report_errors
from cdc_assets.cli.output_formats import Format, Output, print_rows
from cdc_assets.quantity import quantity
from cdc_assets.registry.models import BaseSource

if TYPE_CHECKING:
    from spark.maintenance.maintenance_spec import Maintained, MaintenancePlan

_PLANNED = (
    "table",
    "files",
    "small_files",
    "dead_rows",
    "commits",
    "rows_to_go",
    "rewrite",
    "expire",
    "remove",
    "kept_from",
    "behind",
)
_DONE = ("table", "files", "small_files", "dead_rows", "commits", "rows_gone", "rewritten", "expired", "removed", "given_up")


def maintain(
    chosen: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE|TABLE]…",
            help="Sources, or tables by their place in the lake: silver/world/city. All without.",
            autocompletion=complete_source,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Make small files one, take gone rows out, make checkpoints, remove old commits and files.

    With --dry-run, exit 1 when maintenance of a table has fallen behind. Exit 2 when a table cannot be looked at.
    """
    settings.export_stack_environment()
    with report_errors():
        rows = list(_plans(chosen or ()) if dry_run else _outcomes(chosen or ()))
    print_rows(rows, output, narrow=_PLANNED if dry_run else _DONE)
    if dry_run and any(row["behind"] for row in rows):
        raise typer.Exit(1)


def _sources(chosen: list[str] | tuple[str, ...]) -> Iterator[tuple[BaseSource, list[str]]]:
    """Each source, and the tables of it that are named; none where all of it is."""
    tables: dict[str, list[str]] = {}
    for name in chosen:
        _, sign, rest = name.partition("/")
        tables.setdefault(rest.partition("/")[0] if sign else name, []).extend([name] if sign else [])
    for source in chosen_sources(list(tables)):
        whole = source.name in chosen
        yield source, [] if whole else tables.get(source.name, [])


def _plans(chosen: list[str] | tuple[str, ...]) -> Iterator[dict[str, Any]]:
    from cdc_assets.maintenance.behind import what_is_behind
    from cdc_assets.resources.platform import Platform
    from cdc_assets.restore.maintained_source import plan_with_backup

    for source, tables in _sources(chosen):
        for table, plan in plan_with_backup(Platform(), source, tables):
            figures = plan.figures.to_dict() if plan.figures else {}
            yield {
                "table": table.name,
                **_figures(figures),
                "rows_to_go": plan.rows,
                "rewrite": plan.rewrite_files,
                "checkpoint": plan.checkpoint,
                "expire": plan.expire_commits,
                "remove": plan.remove_files,
                "remove_bytes": plan.remove_bytes,
                "kept_from": oldest_kept(plan) or plan.left,
                "behind": "; ".join(what_is_behind(plan)),
            }


def _outcomes(chosen: list[str] | tuple[str, ...]) -> Iterator[dict[str, Any]]:
    from cdc_assets.resources.platform import Platform
    from cdc_assets.restore.maintained_source import maintain_with_backup

    for source, tables in _sources(chosen):
        for table, done in maintain_with_backup(Platform(), source, tables):
            print(f"{table.name}: {_sentence(done)}", file=sys.stderr, flush=True)
            yield {
                "table": table.name,
                **_figures(done.after.to_dict() if done.after else {}),
                "rows_gone": done.rows_removed,
                "rewritten": done.files_rewritten,
                "checkpoint": done.checkpoint,
                "expired": done.commits_expired,
                "removed": done.files_removed,
                "removed_bytes": done.bytes_removed,
                "kept_from": oldest_kept(done),
                "seconds": done.seconds,
                "given_up": "; ".join(f"{step}: {reason}" for step, reason in done.given_up.items()),
            }


def oldest_kept(found: MaintenancePlan | Maintained) -> str:
    """From which version on all stay, and which stay by themselves."""
    return "; ".join(f"{each.version}: {each.reason}" for each in (found.kept, found.named) if each)


def _sentence(done: Maintained) -> str:
    """What was done, for those who wait."""
    made = f"{quantity(done.files_rewritten, 'file')} made {done.files_written}" if done.files_rewritten else ""
    gone = {"row": done.rows_removed, "commit": done.commits_expired, "file": done.files_removed}
    removed = ", ".join(quantity(count, what) for what, count in gone.items() if count)
    parts = [made, f"{removed} removed" if removed else "", *(f"no {step}: {why}" for step, why in done.given_up.items())]
    return f"{'; '.join(filter(None, parts)) or 'nothing to do'} ({done.seconds:.1f} s)"


def _figures(found: dict[str, int]) -> dict[str, int | None]:
    names = ("files", "small_files", "bytes", "rows", "dead_rows", "commits", "since_checkpoint", "log_bytes")
    return {name: found.get(name) for name in names}
