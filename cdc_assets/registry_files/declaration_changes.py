"""What has become of a source's declaration since definitions were made of it; asked at every tick, so it costs a few stats."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from cdc_assets.registry_files.digest import digest
from cdc_assets.registry_files.errors import RegistryError
from cdc_assets.registry_files.loader import load_source, load_sources, registry_files

Stamps = tuple[tuple[Path, int, int], ...]


def change_of(source: str, loaded: str, place: Path) -> str:
    """A sentence for people; empty where the file or folder still declares the source with the digest `loaded`."""
    files = registry_files(place) if place.is_dir() else [place]
    stamps = tuple((file, stat.st_mtime_ns, stat.st_size) for file in files if file.is_file() for stat in [file.stat()])
    return _change(source, loaded, place, stamps)


@lru_cache(maxsize=64)
def _change(source: str, loaded: str, place: Path, _stamps: Stamps) -> str:
    try:
        declared = {each.name: digest(each) for each in (load_sources(place) if place.is_dir() else [load_source(place)])}
    except RegistryError as error:
        return f"the registry is broken, what was loaded before goes on; mend it, then cdc reload: {error}"
    if source not in declared:
        return f"{place} declares {source} no longer: cdc reload"
    return "" if declared[source] == loaded else f"the declaration of {source} has changed and is not in Dagster yet: cdc reload"
