"""`cdc backup`: what is in the backups: verify them object by object, read the files of sources, expire what is too old.

The files of sources are found by the backup's address alone. An epoch expires when it ended longer ago than the backup keeps.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_assets.cli.declared_sources import EVERY_SOURCE, ChosenSources, complete_source
from cdc_assets.cli.output_formats import Format, Output, is_data, print_document, print_rows
from cdc_assets.cli.verb_frame import verb
from cdc_assets.clients.platform import Platform
from cdc_assets.clients.source_chain import Chain
from cdc_assets.registry import names
from cdc_assets.registry.backup_store import BackupStore, parse_store
from cdc_assets.registry.display_text import visible
from cdc_assets.registry.errors import RefusalError
from cdc_assets.registry.retention import backup_keep
from cdc_assets.registry.source_declaration import BaseSource
from spark.errors import quantity

if TYPE_CHECKING:
    from cdc_assets.backup.old_epochs import ExpiredTable
    from cdc_assets.backup.verification import VerifyReport
    from cdc_assets.recovery.registry_files import RegistryFile

_SHOWN_EXPIRED = ("source", "table", "begins", "earliest", "objects", "bytes", "held")


@verb(failure=2, lake=True)
def expire(
    platform: Platform,
    sources: Annotated[
        ChosenSources,
        typer.Argument(metavar="[SOURCE]…", help="All that declare backup.keep without.", autocompletion=complete_source),
    ] = EVERY_SOURCE,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would go, and change nothing.")] = False,
    output: Output = Format.text,
) -> None:
    """Remove what is older than backup.keep: epochs of tables that were read whole again since.

    Dagster does it by itself, with the maintenance of the source. `held` says why no more goes. Killed,
    the same command goes on. Exit 1 when a table could not be looked at, or not all of it was removed.
    """
    from cdc_assets.backup.old_epochs import expire_backups

    chosen = [source for source in sources if any(backup_keep(source, table) for table in source.tables)]
    if not chosen:
        raise RefusalError("no table of these sources may lose any of its backup: declare backup: {keep: 90d} first")
    done = [(source.name, expired) for source in chosen for expired in expire_backups(Chain(platform, source), dry_run=dry_run)]
    print_rows([_epoch_row(name, expired) for name, expired in done], output, narrow=_SHOWN_EXPIRED)
    failed = [expired for _, expired in done if expired.failed]
    for expired in failed:
        print(f"{expired.epochs.table}: {expired.epochs.reason}", file=sys.stderr)
    if failed:
        raise typer.Exit(1)


def _epoch_row(source: str, expired: ExpiredTable) -> dict[str, Any]:
    epochs = expired.epochs
    return {
        "source": source,
        "table": epochs.table,
        "begins": epochs.base.epoch if epochs.base else 0,
        "earliest": epochs.base.earliest if epochs.base else None,
        "objects": len(epochs.keys),
        "bytes": epochs.bytes,
        "held": epochs.reason,
    }


@verb(failure=2, lake=True)
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
    from cdc_assets.recovery.registry_files import read_registry_files, write_registry_files

    files = read_registry_files(Platform().store(_store(address, prefix, endpoint)), sources)
    texts = {source: file.text for source, file in files.items()}
    _show_addresses(files)
    if into is not None:
        _confirm_files(files, asks=not is_data(output))
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


def _confirm_files(found: Mapping[str, RegistryFile], *, asks: bool) -> None:
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


app = typer.Typer(no_args_is_help=True, help=__doc__)
app.command()(registry)
app.command()(expire)
_SHOWN_VERIFIED = ("source", "table", "manifests", "objects", "records", "behind", "damaged", "signed")


@dataclass(frozen=True)
class _Found:
    """A table's report, or that of what is kept of the source as a whole: what loses something, and what loses nothing."""

    source: str
    table: str
    damage: tuple[str, ...]
    strays: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    signed: str = ""

    def to_json(self) -> dict[str, Any]:
        """For people and programs."""
        empty = dict.fromkeys(("manifests", "objects", "records", "behind"))
        counts = {**empty, **self.counts, "damaged": len(self.damage)}
        listed = {"damage": list(self.damage), "strays": list(self.strays)}
        return {"source": self.source, "table": self.table, **counts, "signed": self.signed, **listed}


@app.command()
@verb(failure=2, lake=True)
def verify(
    platform: Platform,
    sources: Annotated[
        ChosenSources, typer.Argument(metavar="[SOURCE]…", help="All that have a backup without.", autocompletion=complete_source)
    ] = EVERY_SOURCE,
    quick: Annotated[bool, typer.Option("--quick", help="Compare sizes and listed digests only, and read what differs.")] = False,
    output: Output = Format.text,
) -> None:
    """Read every object of the backup, and name each that is changed, cut short, missing or foreign.

    Exit 1 when there is one. The last line says how many lose something. Nothing is changed. No service
    is asked but the store. Where the lake has the table, its rows are counted as well. Where the secret
    `backup_key` is there, a backup signs what it writes, and a head without its signature, or with
    another one, is damage.
    """
    chosen = [source for source in sources if sources.are_named or source.backup is not None]
    if not chosen:
        raise RefusalError("no source declares a backup: there is nothing to verify (backup: in its file)")
    reports = [report for source in chosen for report in _verify(Chain(platform, source), deep=not quick)]
    print_rows([report.to_json() for report in reports], output, narrow=_SHOWN_VERIFIED)
    damage = [sentence for report in reports for sentence in report.damage]
    strays = [sentence for report in reports for sentence in report.strays]
    for sentence in damage:
        print(f"damaged: {sentence}", file=sys.stderr)
    for sentence in strays:
        print(f"to look at: {sentence}", file=sys.stderr)
    if damage or strays:
        lost = "cdc restore SOURCE --dry-run reads what is left" if damage else "a restore lacks nothing"
        print(f"{len(damage)} of {quantity(len(damage) + len(strays), 'finding')} lose something: {lost}", file=sys.stderr)
        raise typer.Exit(1)


def _verify(chain: Chain[BaseSource], *, deep: bool) -> Iterator[_Found]:
    from cdc_assets.backup.kept_cuts import verify_cuts
    from cdc_assets.backup.manifest import newest_of_table
    from cdc_assets.backup.platform_log import newest_entry, verify_state
    from cdc_assets.backup.verification import source_in_store, verify_backup
    from cdc_assets.clients.delta_log import bronze_committed

    source = chain.source
    if source.backup is None:
        raise RefusalError(f"source {source.name} declares no backup: there is nothing to verify (backup: in its file)")
    store = chain.platform.store(source.backup.store)
    committed = bronze_committed(chain.bronze_path)
    declared = [names.table_name(table) for table in source.tables]
    stored = source_in_store(store, source.name, declared)
    for table in (*declared, *stored.others):
        there = committed is not None and committed.of_table(table)
        report = verify_backup(
            store, source=source.name, table=table, bronze_path=chain.bronze_path if there else None, deep=deep
        )
        yield _Found(
            source.name,
            table,
            report.differences,
            report.strays,
            counts=_counts(report),
            signed=newest_of_table(source.name, table).authorship(store),
        )
    state = (*verify_state(store, source.name, deep=deep), *verify_cuts(store, source.name))
    foreign = (f"{key} is of no table, and not ours" for key in stored.foreign)
    yield _Found(source.name, "(the source)", state, tuple(foreign), signed=newest_entry(source.name).authorship(store))


def _counts(report: VerifyReport) -> dict[str, int]:
    return {name: getattr(report, name) for name in ("manifests", "objects", "records", "behind")}
