"""Each kind of document of a backup has one number, and another one is refused by the same text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdc_assets.backup.documents import read_document, write_document
from cdc_assets.backup.kept_cuts import KeptCut
from cdc_assets.backup.manifest import BatchPlan, Manifest
from cdc_assets.backup.manifest_chain import BackupBase
from cdc_assets.backup.old_epochs import EpochReading
from cdc_assets.backup.platform_log import PlatformEntry
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.recovery.drill import Drill, DrilledTable
from cdc_assets.recovery.restored_bronze import KeptGroups
from cdc_assets.recovery.row_groups import Reached
from cdc_assets.registry.errors import BackupError, RefusalError
from cdc_assets_tests.backup.bronze_tables import Bronze, records
from cdc_assets_tests.backup.runs import run

PLAN = BatchPlan("shop", "orders", "t", "id", 0, {0: (0, 5)}, 1, complete=True)
MANIFEST = Manifest(PLAN, 0, {}, (), {0: 5}, 0, 0, digest="d")
SECTIONS = ("registry", "connectors", "offsets", "topics", "subjects", "kept_log", "server", "given_up")
DOCUMENTS: dict[str, Any] = {
    "plan": PLAN,
    "manifest": MANIFEST,
    "base": BackupBase.behind(MANIFEST, epoch=1, earliest_ms=0),
    "reading": EpochReading("shop", "orders", 1, "id", {0: 5}),
    "platform entry": PlatformEntry(1, "2026-11-25", "", dict.fromkeys(SECTIONS, "0" * 64)),
    "cut": KeptCut("shop-20261125T190512Z", "shop", "2026-11-25", "0/1", {}),
    "drill": Drill("shop", 1.0, 2.0, 3, (DrilledTable("orders"),)),
}


def key_of(document: Any) -> str:
    return getattr(document, "key", "shop/kept-cuts/shop-20261125T190512Z.json")


def read(document: Any, data: bytes) -> Any:
    from_bytes: Callable[..., Any] = type(document).from_bytes
    return from_bytes(data, key=key_of(document))


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_another_number_is_refused(kind: str) -> None:
    document = DOCUMENTS[kind]
    data = document.to_bytes()
    assert read(document, data) == document
    for number in (0, 2, None):
        other = json.dumps({**json.loads(data), "cdc_assets": number}).encode()
        with pytest.raises(BackupError) as refused:
            read(document, other)
        name = "none" if number is None else number
        assert str(refused.value) == (
            f"{key_of(document)} is a {kind} of a backup of format {name}, this cdc reads 1: "
            "read it with the cdc that wrote it; cdc --version tells which one this is"
        )


@pytest.mark.parametrize("kind", DOCUMENTS)
@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"\xff", b'{"kind":"other","cdc_assets":1}', b"[" * 100_000])
def test_what_is_no_such_document_is_refused(kind: str, data: bytes) -> None:
    with pytest.raises(BackupError, match=f"is no {kind} of a backup"):
        read(DOCUMENTS[kind], data)


def test_a_sealed_document_that_was_changed_is_refused() -> None:
    data = write_document("cut", {"position": "1"}, sealed=True)
    assert read_document("cut", data, key="k", sealed=True) == {"position": "1"}
    with pytest.raises(BackupError, match="k has another content than the digest in it says"):
        read_document("cut", data.replace(b'"position":"1"', b'"position":"2"'), key="k", sealed=True)


def test_a_backup_does_not_go_on_behind_another_format(store: ObjectStore, bronze: Bronze) -> None:
    bronze.append("orders", records(0, 5))
    run(store, bronze)
    (manifest,) = store.list("shop/orders/_manifests/")
    store.put(manifest.key, store.get(manifest.key).replace(b'"cdc_assets":1', b'"cdc_assets":2'))
    with pytest.raises(BackupError, match="of format 2, this cdc reads 1"):
        run(store, bronze)


def test_a_note_of_a_restore_has_a_format(tmp_path: Path) -> None:
    kept = KeptGroups(str(tmp_path))
    kept.keep("group", "orders", None, Reached())
    assert kept.find("group") == (None, Reached())
    note = tmp_path / "_restore" / "group.json"
    note.write_text(note.read_text().replace('"cdc_assets": 1', '"cdc_assets": 2'))
    with pytest.raises(RefusalError, match="is a note of a restore of format 2, this cdc reads 1: read it with"):
        kept.find("group")
