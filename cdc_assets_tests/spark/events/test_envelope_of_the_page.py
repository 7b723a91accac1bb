"""The envelope that docs/how-to/add-an-envelope.md adds reads its records, and names what it cannot read."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cdc_assets_tests.support.lake.records import Sent, leaves_of
from spark import record_formats
from spark.specs import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "add-an-envelope.md"
BLOCK = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


def test_the_envelope_of_the_page_reads_its_records(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import spark.events as package
    from spark.events import record_readers

    blocks = dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))
    (tmp_path / "boxed_json.py").write_text(blocks["spark/events/boxed_json.py"])
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    row = eval(blocks["spark/record_formats.py"], {"EnvelopeRow": record_formats.EnvelopeRow})
    monkeypatch.setitem(record_formats.ENVELOPES, row.name, row)
    monkeypatch.setitem(record_readers._CLASSES, row.name, import_module("spark.events.boxed_json").BoxedJson)
    columns = (Column("id", "bigint", False), Column("colour", "text"))
    key = {"id": 1}
    sent = [Sent({"box": {"id": 1, "colour": "red"}}, key), Sent(None, key), Sent({"id": 1}, key), Sent("box", key)]
    found = leaves_of(session, (row.name, row.positions), columns, ["id"], sent)
    assert [(each["op"], each["row"]["id"], each["row"]["colour"]) for each in found[:2]] == [("c", "1", "red"), ("d", "1", None)]
    assert [each["unreadable"] for each in found] == [None, None, *["the value is not a JSON object in a box"] * 2]
