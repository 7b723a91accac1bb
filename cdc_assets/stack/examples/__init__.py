"""Example sources in the embedded PostgreSQL: real data (`world`) and live traffic (`bank`). Loading twice changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Collection

from cdc_assets import settings
from cdc_assets.stack.site import Site

EXAMPLES = ("bank", "world")


def load_examples(site: Site, names: Collection[str] = EXAMPLES) -> None:
    """Load these example sources."""
    from cdc_assets.stack.examples import bank, world

    for name, example in (("bank", bank), ("world", world)):
        if name in names:
            example.load(site)


def declare_examples(*, declared: bool) -> None:
    """Let the registry that ships with us be that of the examples, or one without a source, until the next `cdc up`."""
    from cdc_assets.registry_files.loader import REMOVED

    folder = settings.without_examples()
    if declared:
        shutil.rmtree(folder, ignore_errors=True)
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for file in settings.example_sources().glob("*.yaml"):
        shutil.copy(file, folder / f"{file.name}{REMOVED}")
