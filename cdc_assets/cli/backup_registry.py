"""`cdc backup registry`: the files of sources, from a backup that is named by its address alone."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_assets import settings
from cdc_assets.cli.exit_codes import report_errors
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document
from cdc_assets.registry.backup_store import BackupStore, parse_store
from cdc_assets.shown_text import visible

if TYPE_CHECKING:
    from cdc_assets.restore.registry_files import RegistryFile


def registry(
    address: Annotated[
        str, typer.Argument(metavar="STORE", help="Where the backup is: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, file:///FOLDER.")
    ],
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE…", help="Their names.")],
    prefix: Annotated[str | None, typer.Option(help="Of a folder's backup: its prefix there.")] = None,
    endpoint: Annotated[str | None, typer.Option(metavar="URL", help="The store's address, if not its provider's.")] = None,
    into: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write a file for each source there; without it they are printed.")
    ] = None,
    output: Output = Format.text,
) -> None:
    """Print the registry's files of sources as their last backup has them, or write them.

    For a machine that has the bucket and no repository. Secrets are in no backup, and logins in
    addresses are hidden. Files that are there are not touched. The addresses are shown, with whether
    the backup is signed: who may write the bucket could have changed them. It asks before it writes
    one that differs from the last known.
    """
    from cdc_assets.resources.platform import Platform
    from cdc_assets.restore.registry_files import read_registry_files, write_registry_files

    settings.export_stack_environment()
    store = _store(address, prefix, endpoint)
    with report_errors():
        found = read_registry_files(Platform().store(store), sources)
        texts = {source: file.text for source, file in found.items()}
        _show_addresses(found)
        if into is not None:
            _confirm(found, asks=not is_data(output))
        written = write_registry_files(texts, into) if into is not None else []
    if is_data(output):
        print_document({"sources": texts, "written": [str(file) for file in written]}, output)
        return
    for file in written:
        print(f"{file}: written; ./cdc validate")
    if into is None:
        for source, text in texts.items():
            print(f"# {source}.yaml\n{text}")


def _show_addresses(found: Mapping[str, RegistryFile]) -> None:
    for source, file in found.items():
        shown = ", ".join(f"{key} {value}" for key, value in file.address.items() if value != "null")
        print(visible(f"{source}: {file.signed}; passwords go to: {shown}"), file=sys.stderr)
        for line in file.changes:
            print(visible(f"{source}: differs from the last known: {line}"), file=sys.stderr)


def _confirm(found: Mapping[str, RegistryFile], *, asks: bool) -> None:
    """Raises BadParameter where nobody can be asked."""
    if not any(file.changes for file in found.values()):
        return
    if not (asks and sys.stdin.isatty()):
        raise typer.BadParameter(
            "nobody can be asked here whether these addresses are right: without --into the files are printed"
        )
    typer.confirm("Are these the addresses that passwords may be sent to?", abort=True)


def _store(address: str, prefix: str | None, endpoint: str | None) -> BackupStore:
    try:
        return parse_store(address, prefix=prefix, endpoint=endpoint)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="STORE") from error
