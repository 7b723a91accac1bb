"""Backups of format 1, whose lines lack three columns and whose plans know nothing of snapshots."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.recovery.restore_point import RESTORED
from cdc_assets.recovery.restored_bronze import restore_bronze
from cdc_assets.registry.errors import BackupError
from cdc_assets_tests.backup.runs import contents
from cdc_assets_tests.recovery.conftest import Ask
from cdc_assets_tests.recovery.object_damage import name_without_digest
from cdc_assets_tests.recovery.original import NOON, Original, held, quietly, row, states

LACKING = ("tx_id", "source_ts", "snapshot")


def as_of_format_1(root: Path) -> None:
    """What an earlier version has written of the same rows."""
    for file in (root / "shop").rglob("_manifests/*.json"):
        told = json.loads(file.read_bytes())
        told["cdc_assets"] = 1
        del told["facts"]
        for item in told["objects"]:
            place = root / item["key"]
            lines = [json.loads(line) for line in gzip.decompress(place.read_bytes()).splitlines()]
            kept = [{name: value for name, value in line.items() if name not in LACKING} for line in lines]
            text = "".join(json.dumps(line, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n" for line in kept)
            data = gzip.compress(text.encode())
            place.write_bytes(data)
            item |= {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "md5": hashlib.md5(data).hexdigest()}
        file.write_text(json.dumps(told))
    name_without_digest(root)


def of_debezium(offset: int) -> dict[str, Any]:
    """A row as Debezium's JSON of PostgreSQL says it; the first ones are of an initial snapshot."""
    initial = offset < 3
    source = {
        "lsn": 1000 + offset,
        "sequence": None if initial else f'["{900 + offset}","{1000 + offset}"]',
        "txId": 50 + offset,
        "ts_us": NOON + offset,
        "snapshot": "first" if initial else "false",
    }
    facts = {"tx_id": str(50 + offset), "source_ts": NOON + offset, "snapshot": source["snapshot"], "op": "r" if initial else "u"}
    if offset == 7:
        return row(0, offset, value=None, op=None, tx_id=None, source_ts=None, snapshot=None)
    return row(0, offset, value=json.dumps({"op": facts["op"], "source": source}).encode(), **facts)


def test_records_tell_what_older_lines_lack(store: ObjectStore, original: Original, ask: Ask, root: Path) -> None:
    original.append("orders", [of_debezium(offset) for offset in range(20)], snapshots={0: 1002})
    original.back_up(store, "orders")
    as_of_format_1(root)
    request = ask(store)
    orders = restore_bronze(request, quietly)[0]
    assert (orders.outcome, orders.unknown) == (RESTORED, 0)
    assert held(request.path, "orders") == held(original.path, "orders")
    assert states(request.path) == states(original.path)


def test_what_nobody_tells_is_counted(store: ObjectStore, original: Original, ask: Ask, root: Path) -> None:
    original.append("orders", [row(0, offset, value=b"text") for offset in range(20)])
    original.back_up(store, "orders")
    as_of_format_1(root)
    request = ask(store)
    orders = restore_bronze(request, quietly)[0]
    assert (orders.outcome, orders.unknown) == (RESTORED, 20)
    expected = [{**each, **dict.fromkeys(LACKING)} for each in held(original.path, "orders")]
    assert held(request.path, "orders") == expected


def test_a_backup_goes_on_in_the_new_format(store: ObjectStore, original: Original, ask: Ask, root: Path) -> None:
    original.append("orders", [of_debezium(offset) for offset in range(20)], snapshots={0: 1002})
    original.back_up(store, "orders")
    as_of_format_1(root)
    before = contents(root)
    original.append("orders", [of_debezium(offset) for offset in range(20, 30)])
    original.back_up(store, "orders")
    assert {key: data for key, data in contents(root).items() if key in before and not key.endswith("_newest")} == {
        key: data for key, data in before.items() if not key.endswith("_newest")
    }
    request = ask(store)
    restore_bronze(request, quietly)
    assert held(request.path, "orders") == held(original.path, "orders")
    assert states(request.path) == states(original.path)


def test_a_format_to_come_is_refused(store: ObjectStore, original: Original, ask: Ask, root: Path) -> None:
    original.append("orders", [of_debezium(0)])
    original.back_up(store, "orders")
    (manifest,) = (root / "shop/orders/_manifests").iterdir()
    manifest.write_bytes(manifest.read_bytes().replace(b'"cdc_assets":3', b'"cdc_assets":5'))
    (said, *_) = restore_bronze(ask(store), quietly)[0].damage
    assert "has manifest format 5, this version reads up to 4: upgrade it" in said
    with pytest.raises(BackupError, match="format 5"):
        original.back_up(store, "orders")
