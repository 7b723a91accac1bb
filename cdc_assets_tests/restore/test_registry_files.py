"""`cdc backup registry` with nothing left but the bucket: the files are what they were, byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.backup.platform import PlatformState, write_state
from cdc_assets.registry.backup_store import parse_store
from cdc_assets.resources.object_store import ObjectStore
from cdc_assets_tests.restore.command_line import cdc

SHOP = "source: shop  # Größe\ntables: []\n"


@pytest.fixture
def address(store: ObjectStore, root: Path) -> tuple[str, ...]:
    """Of the backup, as a person names it."""
    for text in ("source: shop\n", SHOP):
        write_state(store, "shop", PlatformState(text, {}, {}, {}, {}))
    write_state(store, "bank", PlatformState("", {}, {}, {}, {}))
    return (f"file://{root.parent}", "--prefix", root.name)


def test_the_newest_file_comes_back(address: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_SOURCES", str(tmp_path / "nothing"))
    code, told, _ = cdc("backup", "registry", address[0], "shop", *address[1:])
    assert (code, told) == (0, {"sources": {"shop": SHOP}, "written": []})
    folder = tmp_path / "new" / "sources"
    code, told, _ = cdc("backup", "registry", address[0], "shop", *address[1:], "--into", str(folder))
    assert (code, told["written"]) == (0, [str(folder / "shop.yaml")])
    assert (folder / "shop.yaml").read_text(encoding="utf-8") == SHOP
    code, _, said = cdc("backup", "registry", address[0], "shop", *address[1:], "--into", str(folder))
    assert (code, "shop.yaml: there already, and not touched" in said) == (2, True)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("bank", "this backup has no registry file of source bank"),
        ("city", "this backup has no registry file of source city"),
        ("../shop", "is no name of a source"),
    ],
)
def test_what_is_not_there_is_told(address: tuple[str, ...], source: str, reason: str) -> None:
    code, _, said = cdc("backup", "registry", address[0], source, *address[1:])
    assert code == 2
    assert reason in said


def test_a_store_is_named_by_its_address() -> None:
    s3 = parse_store("s3://bucket/a/b", endpoint="http://127.0.0.1:1")
    assert (s3.kind, s3.bucket, s3.prefix, s3.endpoint) == ("s3", "bucket", "a/b", "http://127.0.0.1:1")
    assert (parse_store("gs://bucket").kind, parse_store("gs://bucket").prefix) == ("gcs", "cdc")
    local = parse_store("file:///backups/of us", prefix="lake")
    assert (local.kind, local.bucket, local.prefix) == ("local", "/backups/of us", "lake")
    for wrong in ("bucket/prefix", "https://bucket", "s3://", "s3:///"):
        with pytest.raises(ValueError, match="is no address of a store"):
            parse_store(wrong)
    with pytest.raises(ValueError, match="a prefix is folders"):
        parse_store("s3://bucket/../x")
