"""What happens to objects of a backup in a folder, and which object of the source shop it happens to."""

from __future__ import annotations

import hashlib
from pathlib import Path


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


def name_as_it_is(root: Path) -> None:
    """Each table's newest manifest is named by the digest that it has now, whoever wrote it."""
    for file in root.glob("shop/*/_newest"):
        name = file.read_text().partition(" ")[0]
        manifest = (file.parent / "_manifests" / name).read_bytes()
        file.write_text(f"{name} {hashlib.sha256(manifest).hexdigest()}")


def newest_manifest(root: Path) -> Path:
    return max((root / "shop/orders/_manifests").iterdir())


def second_object(root: Path) -> Path:
    return sorted((root / "shop/orders").rglob("*+0+0+*.gz"), key=lambda file: file.name)[2]
