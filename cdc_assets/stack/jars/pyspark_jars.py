"""Locked jars that the pyspark wheel brings as well: taken from there, so that 10 MB of Kafka's are not fetched twice."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from cdc_assets.stack.jars.download import missing, sha256
from cdc_assets.stack.jars.lockfile import Jar


def take(jars: Iterable[Jar], cache: Path, folder: Path | None = None) -> list[Jar]:
    """Copy into the cache what is missing there and stands in `folder`, byte for byte; the jars that were taken."""
    folder = folder or pyspark_folder()
    taken = []
    for jar in missing(jars, cache):
        there, target = folder / jar.path.name, cache / jar.path
        if there.exists() and there.stat().st_size == jar.size and sha256(there) == jar.sha256:
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f"{target.name}.{os.getpid()}.part")
            shutil.copyfile(there, part)
            part.replace(target)
            taken.append(jar)
    return taken


def pyspark_folder() -> Path:
    """The folder of the jars in the pyspark wheel."""
    # Not by import: pyspark's takes half a second.
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        return Path("/nonexistent")
    return Path(spec.submodule_search_locations[0]) / "jars"
