"""Several connectors' notifications in one read of the cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdc_assets.connectors.notifications import INITIAL, read_notifications
from cdc_assets.registry_files.loader import load_sources
from cdc_assets_tests.support.declared import declare
from cdc_assets_tests.support.fakes import FakeKafka, FakeTopic

YAML = """\
source: {name}
database: {{kind: postgresql, host: h, dbname: d, user: u, password: {{secret: db_password}}}}
tables: [{{name: public.{name}}}]
"""


def said(*types: str) -> list[tuple[bytes | None, bytes | None] | None]:
    return [(None, json.dumps({"id": "1", "aggregate_type": INITIAL, "type": each}).encode()) for each in types]


def test_all_sources_in_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is told its own in order, and one whose topic nobody has made yet has none."""
    folder = declare(tmp_path, monkeypatch, YAML.format(name="shop")).parent
    for name in ("bank", "late"):
        (folder / f"{name}.yaml").write_text(YAML.format(name=name))
    core = FakeKafka(
        {
            "shop.notifications": FakeTopic("a", {0: said("SKIPPED"), 1: said("STARTED", "PAUSED")}),
            "bank.notifications": FakeTopic("b", {0: said("COMPLETED"), 1: []}, begins={1: 0}),
        }
    )
    found = read_notifications(core, load_sources(folder))  # type: ignore[arg-type]
    told = {name: [each.type for each in of.said] for name, of in found.items()}
    assert told == {"shop": ["STARTED", "SKIPPED"], "bank": ["COMPLETED"]}
    assert core.group_reads == 1
    core.topics["bank.notifications"] = FakeTopic("b", {0: [None]}, begins={0: 1})
    cut = read_notifications(core, load_sources(folder))["bank"]  # type: ignore[arg-type]
    assert (cut.said, cut.whole_since) == ((), None)
