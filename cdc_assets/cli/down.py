"""`cdc down`: stop everything in order and keep the data; with --wipe remove it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cdc_assets import settings
from cdc_assets.cli.progress import Components, console
from cdc_assets.errors import CdcAssetsError
from cdc_assets.quantity import quantity
from cdc_assets.stack import start
from cdc_assets.stack.home import Home
from cdc_assets.stack.state import HEALTHY

if TYPE_CHECKING:
    from cdc_assets.registry.models import BaseSource


def down(
    wipe: Annotated[bool, typer.Option("--wipe", help="Remove all local state as well: databases, topics, lake.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --wipe: do not ask. Without a terminal this is needed.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be removed, and do nothing.")] = False,
) -> None:
    """Stop the stack. --wipe first names what stays in your own databases, and the command that removes it."""
    home = Home(settings.home())
    if wipe:
        print(f"{home.root}: databases, topics, backups in the embedded stores, and {quantity(_tables(home), 'Delta table')}")
        for told in _tell_traces_outside(home):
            print(told, file=sys.stderr)
    if dry_run:
        return
    if wipe and not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter("--wipe removes all of it, and nobody can be asked here: cdc down --wipe --yes")
        typer.confirm("Remove all of it? There is no way back.", abort=True)
    with Components(without=(HEALTHY,)) as view:
        stopped = start.stop(home, seen=view.show, discard=wipe)
    console.print("stopped" if stopped else f"nothing was running in {home.root}")
    if wipe:
        start.wipe(home)
        console.print(f"removed {home.root}")


def _tables(home: Home) -> int:
    return sum(1 for _ in home.lake.rglob("_delta_log"))


def _tell_traces_outside(home: Home) -> Iterator[str]:
    """Each source whose database is not the embedded one, with what that database keeps for us."""
    from cdc_assets.registry_files.loader import load_sources
    from cdc_assets.removal.at_source import traces_of

    try:
        sources = load_sources(settings.sources_folder())
    except CdcAssetsError as error:
        yield f"what stays at your sources cannot be told: {error}"
        return
    for source in sources:
        try:
            traces = traces_of(source)
            if traces is None or _is_embedded(home, source):
                continue
            found = ", ".join(trace.what for trace in traces.find())
            stays = f"{found} at {traces.place}" if found else ""
        except CdcAssetsError as error:
            stays = f"its database cannot be asked what it keeps ({error})"
        if stays:
            yield f"source {source.name}: stays at the source: {stays}"
            yield f"  remove it before: cdc remove {source.name}"
            yield f"  or afterwards, with the secret given again: cdc remove {source.name} --keep connector,mirror"


def _is_embedded(home: Home, source: BaseSource) -> bool:
    from cdc_assets.stack.plan import external_addresses

    database: Any = getattr(source, "database", None)
    if "CDC_POSTGRES_HOST" in external_addresses(home):
        return False
    at = settings.resolve(database.host), settings.resolve(database.port)
    return at == (settings.lookup("CDC_POSTGRES_HOST"), settings.lookup("CDC_POSTGRES_PORT"))
