"""A stack of a test's own, whose source `world` keeps a history of its countries."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

from cdc_assets_tests.support.lakehouse import ROOT, Lakehouse

House = TypeVar("House", bound=Lakehouse)


@contextmanager
def own_lakehouse(kind: type[House], sources: Path, *options: str) -> Iterator[House]:
    """As `cdc up` with the options leaves it; `sources` is an empty folder. Removed afterwards."""
    home = Path(tempfile.mkdtemp(prefix="cdc-own-"))
    for example in (ROOT / "cdc_assets" / "sources").glob("*.yaml"):
        shutil.copy(example, sources)
    world = sources / "world.yaml"
    world.write_text(world.read_text().replace("{name: public.country,", "{name: public.country, history: scd2,"))
    (sources.parent / "gold.py").write_text("")
    house = kind(home, sources, cast(Any, None))
    try:
        house.up_output = house.cdc("up", *options, timeout=1500).stdout
        yield house
    finally:
        house.cdc("down", "--wipe", "--yes", timeout=180, check=False)
        shutil.rmtree(home, ignore_errors=True)
