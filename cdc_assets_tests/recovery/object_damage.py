"""What happens to objects of a backup in a folder, and which object of the source shop it happens to."""

from __future__ import annotations

from pathlib import Path


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


def name_without_digest(root: Path) -> None:
    """Each table's newest manifest is named as an earlier release has named it: whatever it says."""
    for file in root.glob("shop/*/_newest"):
        file.write_text(file.read_text().partition(" ")[0])


def newest_manifest(root: Path) -> Path:
    return max((root / "shop/orders/_manifests").iterdir())


def second_object(root: Path) -> Path:
    return sorted((root / "shop/orders").rglob("*+0+0+*.gz"), key=lambda file: file.name)[2]
