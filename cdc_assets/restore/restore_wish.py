"""What a person, or a job, wants restored, and the request that it makes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cdc_assets import settings
from cdc_assets.errors import RestoreError
from cdc_assets.registry.models import BaseSource
from cdc_assets.resources.platform import Platform
from cdc_assets.restore.backed_up_table import BackedUpTable
from cdc_assets.restore.cut_points import restore_points
from cdc_assets.restore.restore_request import RestoreRequest
from cdc_assets.restore.restore_source import tables_of
from spark.replay.wanted_keys import ALL_KEYS, WantedKeys


@dataclass(frozen=True)
class RestoreWish:
    """Tables by short name (all without), into another lake or where none is, up to a point; `wanted`: of one table alone."""

    tables: tuple[str, ...] = ()
    into: str | None = None
    to: str | None = None
    skip_damaged: bool = False
    wanted: WantedKeys = ALL_KEYS


def make_request(platform: Platform, source: BaseSource, wish: RestoreWish) -> RestoreRequest:
    """Listings at most are read for it.

    Raises:
        NothingToRunError: the source declares no such table.
        RestoreError: there is no backup, no such point, or what is wished does not go together.
        BackupError, StoreError: a cut cannot be read.
    """
    if source.backup is None:
        raise RestoreError(f"source {source.name} declares no backup: there is nothing to restore it from (backup: in its file)")
    _check_wanted(wish)
    chosen, store = tables_of(source, wish.tables), platform.store(source.backup.store)
    found: dict[str, BackedUpTable] = {}
    return RestoreRequest(
        source,
        chosen,
        store,
        _lake(platform, wish.into),
        points=restore_points(store, source, chosen, wish.to, found),
        skip_damaged=wish.skip_damaged,
        is_successor=wish.into is None,
        wanted=wish.wanted,
        found=found,
    )


def _check_wanted(wish: RestoreWish) -> None:
    wanted = wish.wanted
    if wanted and (wish.into is None or len(wish.tables) != 1):
        raise RestoreError(
            "keys are of one table beside the lake: cdc restore SOURCE TABLE --into FOLDER --keys KEY, or with --from-key KEY "
            "--to-key KEY in place of --keys"
        )
    if wanted.single and wanted.is_range:
        raise RestoreError(
            "give single keys (--keys) or a range of them (--from-key, --to-key), not both; name another --into for each"
        )


def _lake(platform: Platform, into: str | None) -> str:
    """The platform's, or another one; a folder may be named from where the process is."""
    if into is None:
        return platform.lake
    lake = settings.check_lake(into if "://" in into else str(Path(into).absolute()))
    if lake == platform.lake:
        raise RestoreError(f"--into {into} is the lake itself: without --into its tables are restored where there are none")
    return lake
