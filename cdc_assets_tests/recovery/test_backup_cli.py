"""`cdc backup verify` as a person calls it, with nothing left but the bucket: what is damaged is named, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cdc_assets.backup.platform_log import PlatformState, write_state
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.recovery.command_line import cdc
from cdc_assets_tests.recovery.object_damage import cut_short, flip, newest_manifest, second_object
from cdc_assets_tests.recovery.original import TABLES, Original, fill


@pytest.fixture
def backed_up(shop: Source, store: ObjectStore, original: Original, root: Path) -> Path:
    fill(original)
    original.back_up(store, *TABLES)
    write_state(store, "shop", PlatformState("source: shop\n", {}, {}, {}, {}))
    return root


def test_a_whole_backup(backed_up: Path) -> None:
    code, told, said = cdc("backup", "verify")
    assert (code, said) == (0, "")
    assert [(row["table"], row["records"], row["damage"], row["strays"]) for row in told] == [
        ("orders", 1612, [], []),
        ("customers", 1200, [], []),
        ("(the source)", None, [], []),
    ]


def a_part(root: Path) -> Path:
    return next((root / "shop/platform-state/sections").iterdir())


def an_entry(root: Path) -> Path:
    return next((root / "shop/platform-state/log").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("victim", [second_object, a_part], ids=["data", "platform"])
@pytest.mark.parametrize("damage", [flip, cut_short, Path.unlink])
def test_bit_rot_truncation_and_absence_are_named(
    backed_up: Path, damage: Callable[[Path], None], victim: Callable[[Path], Path]
) -> None:
    file = victim(backed_up)
    if damage is cut_short and file.stat().st_size < 10:
        file.write_bytes(file.read_bytes()[:-1])
    else:
        damage(file)
    code, told, said = cdc("backup", "verify", "shop")
    assert code == 1
    (sentence,) = [each for row in told for each in row["damage"]]
    assert sentence.startswith(f"{file.relative_to(backed_up)} ")
    assert f"damaged: {sentence}" in said


def test_a_flipped_entry_is_named(backed_up: Path) -> None:
    file = an_entry(backed_up)
    file.write_bytes(file.read_bytes().replace(b'"number":1', b'"number":7'))
    code, _, said = cdc("backup", "verify")
    assert code == 1
    assert str(file.relative_to(backed_up)) in said


@pytest.mark.parametrize("words", [(), ("--quick",)])
def test_a_newest_manifest_that_is_gone_is_named(backed_up: Path, words: tuple[str, ...]) -> None:
    file = newest_manifest(backed_up)
    file.unlink()
    code, told, said = cdc("backup", "verify", "shop", *words)
    assert code == 1
    (sentence,) = [each for row in told for each in row["damage"]]
    assert sentence.startswith(f"{file.relative_to(backed_up)} is missing: shop/orders/_newest names it as the newest manifest")
    assert f"damaged: {sentence}" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "key", ["shop/orders/dt=2026-01-01/hr=01/x.json.gz", "shop/notes/a.txt", "shop/platform-state/b", "shop/c"]
)
def test_foreign_objects_are_named(backed_up: Path, key: str) -> None:
    (backed_up / key).parent.mkdir(parents=True, exist_ok=True)
    (backed_up / key).write_bytes(b"who am I")
    code, told, said = cdc("backup", "verify", "shop", "--quick")
    assert code == 1
    assert [each.startswith(f"{key} is ") for row in told for each in row["strays"]] == [True]
    assert "0 of 1 finding lose something: a restore lacks nothing" in said


def test_the_last_line_says_how_many_lose_something(backed_up: Path) -> None:
    flip(second_object(backed_up))
    flip(min((backed_up / "shop/orders/_plans").iterdir()))
    (backed_up / "shop/orders/core.shop.public.orders+0+0+00000000000000099999.json.gz").write_bytes(b"somebody's")
    code, told, said = cdc("backup", "verify", "shop")
    assert (code, len(told[0]["damage"]), len(told[0]["strays"])) == (1, 1, 2)
    assert said.splitlines()[-1] == "1 of 3 findings lose something: cdc restore SOURCE --dry-run reads what is left"


@pytest.mark.slow
def test_a_table_that_was_taken_out_is_read_as_well(backed_up: Path, tmp_path: Path) -> None:
    file = tmp_path / "sources/shop.yaml"
    file.write_text(file.read_text().replace(", {name: public.customers}", ""))
    code, told, _ = cdc("backup", "verify")
    assert (code, [row["table"] for row in told]) == (0, ["orders", "customers", "(the source)"])
    next((backed_up / "shop/customers").rglob("*.gz")).unlink()
    assert cdc("backup", "verify")[0] == 1


def test_the_quick_way_does_not_read_what_looks_whole(backed_up: Path) -> None:
    """A folder lists no digest, so each object is read there; sizes and absence are told by the listing alone."""
    cut_short(second_object(backed_up))
    code, told, _ = cdc("backup", "verify", "--quick")
    assert code == 1
    assert "its manifest says" in told[0]["damage"][0]


def test_a_source_without_a_backup_has_nothing_to_verify(backed_up: Path, tmp_path: Path) -> None:
    file = tmp_path / "sources/shop.yaml"
    file.write_text("\n".join(line for line in file.read_text().splitlines() if not line.startswith("backup")))
    for arguments in ((), ("shop",)):
        code, _, said = cdc("backup", "verify", *arguments)
        assert code == 2
        assert "declare" in said
