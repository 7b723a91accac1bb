"""A registry of one file in a folder of the test's own, with its lake and its home."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pytest

from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import BaseSource, Source

AnySource = TypeVar("AnySource", bound=BaseSource)
PLACES = {"CDC_SOURCES": "sources", "CDC_LAKE": "lake", "CDC_HOME": "home"}


def declare(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, name: str = "shop") -> Path:
    """The file; the product looks for sources, lake and home in the folder."""
    file = folder / "sources" / f"{name}.yaml"
    file.parent.mkdir()
    file.write_text(text)
    for variable, place in PLACES.items():
        monkeypatch.setenv(variable, str(folder / place))
    return file


def declare_source(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, kind: type[AnySource] = Source) -> AnySource:
    """As it is read from the file, and of this kind."""
    source = load_source(declare(folder, monkeypatch, text))
    assert isinstance(source, kind)
    return source
