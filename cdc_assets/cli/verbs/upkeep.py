"""`cdc maintain` and `cdc replay`: keep tables small and fast, and make a table again from bronze by today's rules.

Both say with --dry-run or a preview what they would do. A replay can be taken back.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_assets.cli.declared_sources import chosen_sources, complete_source, table_of
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document, print_rows
from cdc_assets.cli.verb_frame import OneChain, say, verb
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry.source_declaration import BaseSource
from spark.errors import quantity

if TYPE_CHECKING:
    from cdc_assets.registry.table_declaration import Table
    from spark.upkeep.maintenance_spec import Maintained

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


@verb(failure=2, lake=True)
def maintain(
    platform: Platform,
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
    rows = list(_plans(platform, chosen or ()) if dry_run else _outcomes(platform, chosen or ()))
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


def _plans(platform: Platform, chosen: list[str] | tuple[str, ...]) -> Iterator[dict[str, Any]]:
    from cdc_assets.recovery.maintenance import plan_with_backup, what_is_behind

    for source, tables in _sources(chosen):
        for table, plan in plan_with_backup(Chain(platform, source), tables):
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
                "kept_from": plan.kept_from or plan.left,
                "behind": "; ".join(what_is_behind(plan)),
            }


def _outcomes(platform: Platform, chosen: list[str] | tuple[str, ...]) -> Iterator[dict[str, Any]]:
    from cdc_assets.recovery.maintenance import maintain_with_backup

    for source, tables in _sources(chosen):
        for table, done in maintain_with_backup(Chain(platform, source), tables):
            print(f"{table.name}: {_maintenance_sentence(done)}", file=sys.stderr, flush=True)
            yield {
                "table": table.name,
                **_figures(done.after.to_dict() if done.after else {}),
                "rows_gone": done.rows_removed,
                "rewritten": done.files_rewritten,
                "checkpoint": done.checkpoint,
                "expired": done.commits_expired,
                "removed": done.files_removed,
                "removed_bytes": done.bytes_removed,
                "kept_from": done.kept_from,
                "seconds": done.seconds,
                "given_up": "; ".join(f"{step}: {reason}" for step, reason in done.given_up.items()),
            }


def _maintenance_sentence(done: Maintained) -> str:
    made = f"{quantity(done.files_rewritten, 'file')} made {done.files_written}" if done.files_rewritten else ""
    gone = {"row": done.rows_removed, "commit": done.commits_expired, "file": done.files_removed}
    removed = ", ".join(quantity(count, what) for what, count in gone.items() if count)
    parts = [made, f"{removed} removed" if removed else "", *(f"no {step}: {why}" for step, why in done.given_up.items())]
    return f"{'; '.join(filter(None, parts)) or 'nothing to do'} ({done.seconds:.1f} s)"


def _figures(found: dict[str, int]) -> dict[str, int | None]:
    names = ("files", "small_files", "bytes", "rows", "dead_rows", "commits", "since_checkpoint", "log_bytes")
    return {name: found.get(name) for name in names}


_TIME = "Rows with an event at the source {} this time: 2026-11-25T14:00:00Z."


@dataclass(frozen=True)
class ReplayOptions:
    """What of the table is made again, and how."""

    keys: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help='Only this key: 42, or {"a": 1, "b": "x"}; may be given again.')
    ] = None
    since: Annotated[str, typer.Option("--from", metavar="TIME", help=_TIME.format("at or after"))] = ""
    until: Annotated[str, typer.Option("--to", metavar="TIME", help=_TIME.format("before"))] = ""
    as_new: Annotated[bool, typer.Option("--as-new", help="Without columns that are kept of earlier schemas.")] = False


@verb(lake=True)
def replay(
    chain: OneChain,
    table: Annotated[str, typer.Argument(help="As in the registry or in the lake.")],
    wanted: ReplayOptions,
    undo: Annotated[bool, typer.Option("--undo", help="Take the newest replay back.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what differs, and change nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Make silver, and the history, again from bronze by today's rules; show what differs, and swap it in.

    Readers go on: each table changes by one commit, at its own path.
    """
    from cdc_assets.recovery.replay_table import ReplayWish, replay_table

    in_time = wanted.since or wanted.until
    if (wanted.keys and in_time) or (undo and (wanted.keys or in_time or wanted.as_new)):
        raise typer.BadParameter("--keys, --from with --to, and --undo do not go together")
    chosen = table_of(chain.source, table)
    if undo:
        _undo(chain, chosen, dry_run, output)
        return
    wish = ReplayWish(tuple(wanted.keys or ()), wanted.since, wanted.until, wanted.as_new, dry_run)
    answer = replay_table(chain, chosen, wish, say).to_json()
    if is_data(output):
        print_document({**answer, "dry_run": dry_run}, output)
    else:
        _print_answer(answer, dry_run=dry_run)


def _undo(chain: Chain[BaseSource], table: Table, dry_run: bool, output: Format) -> None:
    from cdc_assets.recovery.replay_table import undo_replay

    versions = undo_replay(chain, table, say, dry_run=dry_run)
    if is_data(output):
        print_document({"source": chain.source.name, "table": table.name, "as_of": versions, "dry_run": dry_run}, output)
        return
    for layer, version in versions.items():
        there = f"as of version {version}" if version >= 0 else "as before there was one"
        print(f"{layer}: {'would be ' if dry_run else ''}{there}")


def _print_answer(answer: dict[str, Any], *, dry_run: bool) -> None:
    name = f"{answer['source']}/{answer['table']}"
    for change in answer["rules"]:
        print(f"rule {change}")
    for layer, difference in answer["difference"].items():
        counts = ", ".join(f"{count:,} {kind}" for kind, count in difference["rows"].items() if count)
        print(f"{name} {layer} (version {difference['version']}): {counts or 'no row differs'}")
        for line in difference["schema"]:
            print(f"  {line}")
        for column, count in difference["changed_by_column"].items():
            print(f"  {column}: {count:,} changed")
        for example in difference["examples"]:
            print(f"  {_example_sentence(example)}")
    if answer["quarantined"] or answer["folded_of_quarantine"]:
        print(f"quarantine: {answer['quarantined']:,} cannot be folded, {answer['folded_of_quarantine']:,} are folded after all")
    if answer["swapped"]:
        versions = ", ".join(f"{layer} version {version}" for layer, version in answer["versions"].items())
        print(f"{name}: swapped in ({versions}); cdc replay {answer['source']} {answer['table']} --undo takes it back")
    else:
        print(f"{name}: {'nothing was changed (--dry-run)' if dry_run else 'nothing to swap in'}")


def _example_sentence(example: dict[str, Any]) -> str:
    key = ", ".join(f"{name}={value}" for name, value in example["key"].items())
    was, now = example["was"], example["now"]
    if was and now:
        values = ", ".join(f"{name} {was[name]} -> {now[name]}" for name in now)
    else:
        values = ", ".join(f"{name} {value}" for name, value in (was or now).items())
    return f"{example['kind']} {key}" + (f": {values}" if values else "")
