"""`cdc backup registry` with nothing left but the bucket: the files are what they were, byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdc_assets.backup.platform_log import PlatformState, write_state
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.registry.backup_store import parse_store
from cdc_assets_tests.recovery.command_line import cdc

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


DECLARED = """source: shop
database: {{kind: postgresql, host: {host}, dbname: shop, user: cdc, sslmode: {mode}, password: {{secret: shop_db_password}}}}
tables: [{{name: public.orders}}]
"""


def test_addresses_that_somebody_has_changed(
    store: ObjectStore, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may write the bucket names a host of his own: it is shown, and no file is written unasked; signed, it is refused."""
    monkeypatch.setenv("CDC_HOME", str(tmp_path / "home"))
    place = ("backup", "registry", f"file://{root.parent}", "shop", "--prefix", root.name)
    into = ("--into", str(tmp_path / "sources"))
    monkeypatch.setenv("CDC_SECRET_BACKUP_KEY", "a drawn key")
    write_state(store, "shop", PlatformState(DECLARED.format(host="db.example", mode="verify-full"), {}, {}, {}, {}))
    code, _, said = cdc(*place)
    assert (code, "shop: signed by backup_key; passwords go to: " in said, '"db.example"' in said) == (0, True, True)
    monkeypatch.delenv("CDC_SECRET_BACKUP_KEY")
    write_state(store, "shop", PlatformState(DECLARED.format(host="attacker.example", mode="disable"), {}, {}, {}, {}))
    code, told, said = cdc(*place, *into)
    assert (code, told, (tmp_path / "sources").exists()) == (2, None, False)
    assert 'shop: differs from the last known: host is "attacker.example", was "db.example"' in said
    assert 'shop: differs from the last known: sslmode is "disable", was "verify-full"' in said
    assert "shop: not signed; passwords go to: " in said
    assert cdc(*place)[1]["sources"]["shop"] == DECLARED.format(host="attacker.example", mode="disable")
    monkeypatch.setenv("CDC_SECRET_BACKUP_KEY", "a drawn key")
    code, told, said = cdc(*place)
    assert (code, told) == (2, None)
    assert "shop/platform-state/newest is not signed, and secret backup_key is here" in said


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
