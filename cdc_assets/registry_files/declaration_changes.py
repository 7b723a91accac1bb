"""What has become of a source's declaration since definitions were made of it; asked at every tick, so it costs a few stats."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from cdc_assets.registry_files.digest import digest
from cdc_assets.registry_files.errors import RegistryError
from cdc_assets.registry_files.loader import load_source, load_sources, registry_files

Stamps = tuple[tuple[Path, int, int], ...]


def stamps_of(place: Path) -> Stamps:
    """When each file was written, and its size: a look at these costs microseconds."""
    files = registry_files(place) if place.is_dir() else [place]
    return tuple((file, stat.st_mtime_ns, stat.st_size) for file in files if file.is_file() for stat in [file.stat()])


def is_gone(source: str, place: Path) -> bool:
    """Whether the file or folder, which is whole, does not declare the source any longer."""
    try:
        return source not in _digests(place, stamps_of(place))
    except RegistryError:
        return False


def change_of(source: str, loaded: str, place: Path) -> str:
    """A sentence for people; empty where the file or folder still declares the source with the digest `loaded`."""
    try:
        declared = _digests(place, stamps_of(place))
    except RegistryError as error:
        return f"the registry is broken, what was loaded before goes on; mend it, then cdc reload: {error}"
    if source not in declared:
        return f"{place} declares {source} no longer: cdc reload"
    return "" if declared[source] == loaded else f"the declaration of {source} has changed and is not in Dagster yet: cdc reload"


@lru_cache(maxsize=64)
def _digests(place: Path, _stamps: Stamps) -> dict[str, str]:
    """Each declared source, and its digest."""
    return {each.name: digest(each) for each in (load_sources(place) if place.is_dir() else [load_source(place)])}
