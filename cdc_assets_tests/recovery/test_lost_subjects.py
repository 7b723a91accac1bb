"""A schema registry that has lost everything gets its subjects back from the backup, under the ids that stand in the records."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from cdc_assets.backup.platform_log import PlatformState, find_subjects, write_state
from cdc_assets.clients.object_store import ObjectStore
from cdc_assets.recovery.lost_subjects import plan_subjects, restore_subjects
from cdc_assets.registry.errors import RefusalError, ServiceError
from cdc_assets.registry.loader import load_source
from cdc_assets.registry.source_declaration import BaseSource
from cdc_assets_tests.recovery.command_line import cdc
from cdc_assets_tests.recovery.import_registry import ImportRegistry, import_registry
from cdc_assets_tests.support.servers.apicurio import apicurio

KEY, VALUE = "a.public.coin-key", "a.public.coin-value"
Declare = Callable[[str], BaseSource]


def schema(fields: int) -> str:
    optional = [{"name": f"f{number}", "type": ["null", "int"], "default": None} for number in range(fields)]
    return json.dumps({"type": "record", "name": "row", "fields": optional})


def version(subject: str, number: int, schema_id: int, fields: int) -> dict[str, Any]:
    return {"subject": subject, "version": number, "id": schema_id, "schema": schema(fields)}


KEPT = {
    KEY: [version(KEY, 1, 1, 1), version(KEY, 2, 4, 4)],
    VALUE: [version(VALUE, 1, 2, 2), version(VALUE, 2, 7, 3), version(VALUE, 3, 1, 1)],
}


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declare:
    def make(registry: str) -> BaseSource:
        folder = tmp_path / "sources"
        folder.mkdir(exist_ok=True)
        table = "{name: coin, topic: a.public.coin, envelope: avro, keys: [f0], columns: {f0: integer not null}}"
        backup = f"{{store: {{kind: local, bucket: {tmp_path / 'bucket'}, prefix: lake}}}}"
        text = f"source: feeds\nkind: topics\ncluster: lake\nschema_registry: {registry}\nbackup: {backup}\ntables: [{table}]\n"
        (folder / "feeds.yaml").write_text(text)
        for name, value in {"SOURCES": folder, "LAKE": tmp_path / "lake", "HOME": tmp_path / "home"}.items():
            monkeypatch.setenv(f"CDC_{name}", str(value))
        return load_source(folder / "feeds.yaml")

    return make


@pytest.fixture
def registry() -> Iterator[ImportRegistry]:
    with import_registry() as found:
        yield found


@pytest.fixture
def kept(store: ObjectStore) -> ObjectStore:
    write_state(store, "feeds", PlatformState("", {}, {}, {}, KEPT))
    return store


def quietly(_: str) -> None:
    pass


@pytest.mark.slow
def test_ids_and_versions_come_back_by_import(kept: ObjectStore, declare: Declare, registry: ImportRegistry) -> None:
    source = declare(registry.url)
    assert [plan.to_json()["ids"] for plan in plan_subjects(kept, source)] == [[1, 4], [2, 7, 1]]
    assert registry.subjects == {}, "a plan changes nothing"
    said: list[str] = []
    restore_subjects(kept, source, said.append)
    assert len(said) == 5
    assert find_subjects(source) == {KEY: KEPT[KEY], VALUE: [KEPT[VALUE][2], *KEPT[VALUE][:2]]}
    assert registry.in_import == set()
    assert restore_subjects(kept, source, quietly) == []


@pytest.mark.slow
def test_what_a_killed_call_has_left_is_gone_on_from(kept: ObjectStore, declare: Declare, registry: ImportRegistry) -> None:
    source, registry.posts_until_it_fails = declare(registry.url), 3
    with pytest.raises(ServiceError, match="answers 500"):
        restore_subjects(kept, source, quietly)
    assert registry.in_import == set(), "converters may write, whatever has failed"
    registry.posts_until_it_fails = 1_000
    assert [plan.to_json()["ids"] for plan in plan_subjects(kept, source)] == [[4], [7]]
    restore_subjects(kept, source, quietly)
    registry.in_import.add(KEY)  # as a kill between the two leaves it
    (left,) = restore_subjects(kept, source, quietly)
    assert (left.subject, left.missing, registry.in_import) == (KEY, (), set())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("there", "reason"),
    [
        ({"other": [version("other", 1, 7, 9)]}, "has another schema under id 7 than a.public.coin-value version 2 had"),
        ({VALUE: [version(VALUE, 1, 3, 2)]}, "has a.public.coin-value version 1 under id 3; in the records it is 2"),
    ],
)
def test_another_schema_or_another_id_stops_all(
    kept: ObjectStore, declare: Declare, registry: ImportRegistry, there: dict[str, list[dict[str, Any]]], reason: str
) -> None:
    source, registry.subjects = declare(registry.url), there
    before = json.dumps(there)
    with pytest.raises(RefusalError, match=reason):
        restore_subjects(kept, source, quietly)
    assert json.dumps(registry.subjects) == before


def test_a_registry_that_is_away_is_told_without_its_login(kept: ObjectStore, declare: Declare) -> None:
    source = declare("http://reader:canary@127.0.0.1:9")
    with pytest.raises(ServiceError, match="GET http://127.0.0.1:9/subjects/a.public.coin-key/versions") as failed:
        plan_subjects(kept, source)
    assert "canary" not in str(failed.value)


@pytest.mark.all
@pytest.mark.service
def test_apicurio_that_has_lost_its_memory_gets_them_by_its_count(store: ObjectStore, declare: Declare, tmp_path: Path) -> None:
    """It has no IMPORT: it gives the ids that it gave before, or is told to have given another, which is taken back."""

    def post(url: str, subject: str, fields: int) -> None:
        httpx.post(f"{url}/subjects/{subject}/versions", json={"schema": schema(fields)}).raise_for_status()

    with apicurio(tmp_path / "first") as first:
        for fields, subject in enumerate((KEY, VALUE, VALUE, KEY), start=1):
            post(first.url, subject, fields)
        source = declare(first.url)
        before = find_subjects(source)
        assert {subject: [each["id"] for each in versions] for subject, versions in before.items()} == {
            KEY: [1, 4],
            VALUE: [2, 3],
        }
        write_state(store, source.name, PlatformState("", {}, {}, {}, before))
        assert plan_subjects(store, source) == []
        post(first.url, "another", 5)
        post(first.url, KEY, 6)
        later = find_subjects(source)
    with apicurio(tmp_path / "second") as second:
        source = declare(second.url)
        planned = cdc("restore", "feeds", "--topics", "--dry-run")[1]["subjects"]
        assert [(each["subject"], each["ids"]) for each in planned] == [(KEY, [1, 4]), (VALUE, [2, 3])]
        assert find_subjects(source) == {}
        assert cdc("restore", "feeds", "--topics")[1]["subjects"] == planned
        assert find_subjects(source) == before
        assert cdc("restore", "feeds", "--topics")[1]["subjects"] == []
        write_state(store, source.name, PlatformState("", {}, {}, {}, later))
        with pytest.raises(RefusalError, match=rf"gives {KEY} version 3 the id 5; in the records it is 6"):
            restore_subjects(store, source, quietly)
        assert find_subjects(source) == before
