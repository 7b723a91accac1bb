"""`cdc offsets get|set|reset`: where a connector goes on from. Only a stopped connector's offsets can be changed (KIP-875)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from cdc_assets.cli.chosen_sources import complete_connector
from cdc_assets.cli.output_formats import Format, Output, print_document
from cdc_assets.errors import ConnectError
from cdc_assets.resources.connect.states import SourceOffset

if TYPE_CHECKING:
    from cdc_assets.resources.connect import ConnectClient

app = typer.Typer(no_args_is_help=True, help=__doc__)
Connector = Annotated[str, typer.Argument(help="Its name.", autocompletion=complete_connector)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show before and after, and change nothing.")]


@app.command("get")
def get_(connector: Connector, output: Output = Format.json) -> None:
    """Print a connector's offsets, in the form that `set` reads."""
    print_document(_connect(connector).offsets(connector), output)


@app.command("set")
def set_(
    connector: Connector,
    file: Annotated[Path, typer.Option("--file", "-f", help="As `get` prints it; - for standard input.")],
    dry_run: DryRun = False,
    output: Output = Format.json,
) -> None:
    """Set the offsets in a file, and leave all others; an offset of null is forgotten."""
    wanted = _read(file)
    connect, before = _require_stopped(connector)
    if not dry_run:
        print(connect.patch_offsets(connector, wanted), file=sys.stderr)
    after = _merge_offsets(before, [offset.to_json() for offset in wanted]) if dry_run else connect.offsets(connector)
    print_document({"connector": connector, "dry_run": dry_run, "before": before, "after": after}, output)


@app.command("reset")
def reset(connector: Connector, dry_run: DryRun = False, output: Output = Format.json) -> None:
    """Forget all offsets: a Debezium connector then snapshots anew, a mirror copies from the beginning again."""
    connect, before = _require_stopped(connector)
    if not dry_run:
        print(connect.reset_offsets(connector), file=sys.stderr)
    after: list[Any] = [] if dry_run else connect.offsets(connector)
    print_document({"connector": connector, "dry_run": dry_run, "before": before, "after": after}, output)


def _connect(connector: str) -> ConnectClient:
    from cdc_assets.connectors.inventory import locate
    from cdc_assets.resources.platform import Platform

    return locate(Platform(), connector)


def _require_stopped(connector: str) -> tuple[ConnectClient, list[dict[str, Any]]]:
    """Where it is, and its offsets.

    Raises:
        ConnectError: it is not stopped.
    """
    connect = _connect(connector)
    before = connect.offsets(connector)
    status = connect.status(connector)
    if status is None or not status.stopped:
        state = status.state if status else "UNASSIGNED"
        raise ConnectError(
            f"connector {connector} is {state}; offsets can be changed only when it is stopped: cdc stop {connector}"
        )
    return connect, before


def _read(file: Path) -> list[SourceOffset]:
    try:
        # YAML has JSON in it, and `get` prints both.
        document = YAML(typ="safe", pure=True).load(sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8"))
        entries = document["offsets"] if isinstance(document, dict) else document
        return [SourceOffset(dict(entry["partition"]), entry["offset"]) for entry in entries]
    except OSError as error:
        raise typer.BadParameter(f"{file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, YAMLError) as error:
        raise typer.BadParameter(
            f'{file}: not [{{"partition": {{…}}, "offset": {{…}}}}] as `cdc offsets get` prints it: {error}'
        ) from None


def _merge_offsets(before: list[dict[str, Any]], changed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_partition = {json.dumps(entry["partition"], sort_keys=True): entry for entry in [*before, *changed]}
    return [entry for entry in by_partition.values() if entry["offset"] is not None]
