"""A registry file of somebody else's: what it may cost to read it, and what it may say of addresses and of TLS."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import pytest

from cdc_assets.backup.documents import read_document
from cdc_assets.reading.topic_records import _json_or_text
from cdc_assets.registry.errors import BackupError, RegistryError
from cdc_assets.registry.loader import load_sources

PLAIN = """source: shop
database: {kind: %s, host: %s, dbname: %s, user: u, password: {secret: shop}}
tables: [{name: public.t}]
"""


def refused(folder: Path, text: str) -> str:
    folder.mkdir()
    (folder / "shop.yaml").write_text(text)
    began = time.monotonic()
    with pytest.raises(RegistryError) as found:
        load_sources(folder)
    assert time.monotonic() - began < 20
    return str(found.value)


def plain(host: str = "db", dbname: str = "shop", kind: str = "postgresql") -> str:
    return PLAIN % (kind, host, dbname)


def bomb() -> str:
    names = "abcdefgh"
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]" for old, new in pairwise(names)]
    return "\n".join(lines)


def test_aliases_of_aliases_are_a_finding_within_seconds(tmp_path: Path) -> None:
    assert "shop.yaml: its aliases stand for more than 200,000 values" in refused(tmp_path / "s", plain() + bomb() + "\n")


@pytest.mark.parametrize("depth", [200, 20_000])
def test_brackets_within_brackets_are_a_finding(tmp_path: Path, depth: int) -> None:
    assert "brackets within brackets" in refused(tmp_path / "s", plain() + f"a: {'[' * depth}{']' * depth}\n")


def test_aliases_that_stand_for_little_are_taken(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(plain().replace("public.t}", "public.t, keys: &k [id]}, {name: public.u, keys: *k}"))
    (source,) = load_sources(tmp_path)
    assert [table.keys for table in source.tables] == [("id",), ("id",)]


def test_brackets_in_a_bucket_or_a_topic_end_no_command() -> None:
    deep = b"[" * 1_000_000
    with pytest.raises(BackupError, match="a/b is no manifest"):
        read_document("manifest", deep, key="a/b")
    closed = b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    for raw in (deep, closed):
        assert _json_or_text(raw) == raw.decode()


@pytest.mark.parametrize("kind", ["postgresql", "sqlserver", "oracle"])
def test_a_host_and_a_database_are_no_parts_of_an_address(tmp_path: Path, kind: str) -> None:
    for at, host in enumerate(
        ("127.0.0.1:1/x?socketFactory=y", "db;trustServerCertificate=true", "u@db", "db#", "a b", "db\\\\i")
    ):
        told = refused(tmp_path / f"h{at}", plain(host=f"'{host}'", kind=kind))
        assert "it is the name or the address of a host" in told, told
    for at, dbname in enumerate(("d?sslmode=disable", "d;encrypt=false", "d&x=y", "d/x", "d%3Fx")):
        told = refused(tmp_path / f"d{at}", plain(dbname=f"'{dbname}'", kind=kind))
        assert "begins another part of its address" in told, told


def test_hosts_as_people_have_them_are_taken(tmp_path: Path) -> None:
    for at, host in enumerate(("db.example-1.com", "10.0.0.1", "'::1'", "'[2001:db8::1]'", "db_1", "'a.example,b.example'")):
        folder = tmp_path / str(at)
        folder.mkdir()
        (folder / "shop.yaml").write_text(plain(host=host, dbname="'my shop-ü'"))
        assert load_sources(folder)


WITHOUT_TLS = {
    "database.sslmode": "disable",
    "database.ssl.mode": "preferred",
    "database.sslfactory": "org.postgresql.ssl.NonValidatingFactory",
    "driver.sslMode": "DISABLED",
    "driver.socketFactory": "evil.Factory",
    "driver.trustServerCertificate": "true",
    "mongodb.ssl.invalid.hostname.allowed": "true",
}


@pytest.mark.parametrize("key", WITHOUT_TLS)
def test_no_setting_takes_tls_away(tmp_path: Path, key: str) -> None:
    told = refused(tmp_path / "s", plain() + f"capture: {{settings: {{{key}: '{WITHOUT_TLS[key]}'}}}}\n")
    assert f"capture.settings.{key}: TLS is declared under database" in told
