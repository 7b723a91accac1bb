"""Parts of rows in Avro, of two schemas and with a key change, are completed as those of JSON are.

The second schema has a column more, which the source has filled with 5 in the rows that it had before.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_assets_tests.support.lake.avro import Registry, framed, registry
from cdc_assets_tests.support.lake.committed import committed
from cdc_assets_tests.support.lake.lake import values
from cdc_assets_tests.support.lake.plans import PARSERS, plan_text
from cdc_assets_tests.support.lake.records import Sent, kafka
from cdc_assets_tests.support.values.avro_events import FROM, envelope
from spark.bronze import append_job as bronze
from spark.bronze.change_log import table_events
from spark.record_formats import DEBEZIUM_UNAVAILABLE
from spark.silver import fold_job as silver
from spark.silver.newest_event import of_keys
from spark.silver.typed_changes import decode_changes
from spark.specs import BronzeSpec, Column, SilverSpec, TopicRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.all

TEXT: list[Any] = ["null", "string"]
WIDE = [{"name": f"w{i}", "type": TEXT} for i in range(18)]
DECIMAL = ["null", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3}]
MICROS = ["null", {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}]
OLD_FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "int"},
    {"name": "n", "type": DECIMAL},
    {"name": "at", "type": MICROS},
    {"name": "b", "type": ["null", "bytes"]},
    {"name": "words", "type": ["null", {"type": "array", "items": TEXT}]},
    *WIDE,
]
NEW_FIELDS = [*OLD_FIELDS, {"name": "mo_re", "type": ["null", "long"]}]
OLD, NEW = envelope(OLD_FIELDS), envelope(NEW_FIELDS)
KEY = {"type": "record", "name": "Key", "namespace": "core.shop.public.t", "fields": OLD_FIELDS[:1]}
COLUMNS = (
    Column("id", "integer", False),
    Column("n", "numeric(12,3)"),
    Column("at", "timestamp without time zone"),
    Column("b", "bytea"),
    Column("words", "text[]"),
    *(Column(f["name"], "text") for f in WIDE),
    Column("mo.re", "bigint", missing="5"),
)
TOASTED = {"b": DEBEZIUM_UNAVAILABLE.encode(), "words": [DEBEZIUM_UNAVAILABLE], "w0": DEBEZIUM_UNAVAILABLE}


@pytest.fixture
def kept() -> Iterator[Registry]:
    with registry() as found:
        yield found


def row(key: int, **other: Any) -> dict[str, Any]:
    wide = {f["name"]: f"{f['name']}-{key}" for f in WIDE}
    return {"id": key, "n": b"\x01\x00", "at": 1_700_000_000_123_456, "b": b"\0\xff", "words": ["a", None], **wide, **other}


def silver_row(key: int, **other: Any) -> dict[str, Any]:
    at = datetime(2023, 11, 14, 22, 13, 20, 123456)
    return {**row(key), "n": Decimal("0.256"), "at": at, "mo.re": 5, **other}


@dataclass(frozen=True)
class Change:
    """An event of a key; `newer`: written with the schema that has one more column."""

    key: int
    event: dict[str, Any]
    newer: bool


def changes() -> Iterator[Change]:
    def change(number: int, op: str, lsn: int, after: Any, *, newer: bool = False, before: Any = None) -> Change:
        source = {**FROM, "lsn": lsn, "sequence": f'["50","{lsn}"]'}
        return Change(number, {"op": op, "before": before, "after": after, "source": source}, newer)

    for number in (1, 2, 3, 4, 5):
        yield change(number, "c", 100 + number, row(number))
    yield change(10, "c", 110, row(10))
    yield change(1, "u", 120, row(1, n=b"\x02\x00", w1=None, **TOASTED))
    yield change(2, "d", 130, None, before={"id": 2})
    yield change(12, "c", 130, row(12, **TOASTED))
    yield change(3, "d", 140, None, before={"id": 3})
    yield change(4, "u", 150, row(4, w2="four", **{"mo.re": None}, **TOASTED), newer=True)
    yield change(5, "u", 160, row(5, **{"mo.re": 6}), newer=True)


def in_avro(kept: Registry, found: Iterable[Change]) -> list[Sent]:
    """As Debezium writes them: `_` for what no name in Avro may have."""
    key, old, new = kept.register("t-key", KEY), kept.register("t-value", OLD), kept.register("t-value", NEW)

    def value(change: Change) -> bytes:
        after = change.event["after"]
        named = None if after is None else {name.replace(".", "_"): v for name, v in after.items()}
        return framed(*((new, NEW) if change.newer else (old, OLD)), {**change.event, "after": named})

    return [Sent(value(change), framed(key, KEY, {"id": change.key})) for change in found]


def in_json(found: Iterable[Change]) -> list[Sent]:
    """The same as the JSON converter writes them."""

    def image(row: dict[str, Any] | None) -> dict[str, Any] | None:
        if row is None:
            return None
        told = {name: base64.b64encode(v).decode() if isinstance(v, bytes) else v for name, v in row.items()}
        return told if "n" not in row else {**told, "n": str(Decimal(int.from_bytes(row["n"], "big", signed=True)).scaleb(-3))}

    return [Sent({**c.event, **{part: image(c.event[part]) for part in ("before", "after")}}, {"id": c.key}) for c in found]


@pytest.mark.parametrize("form", ["debezium-avro", "debezium-json"])
def test_parts_are_completed(session: SparkSession, kept: Registry, tmp_path: Path, form: str) -> None:
    records = in_avro(kept, changes()) if form == "debezium-avro" else in_json(changes())
    topic = TopicRange("t", "t", "id", 0, {0: (0, len(records))}, form, "postgresql", schema_registry=kept.url)
    asked = BronzeSpec(str(tmp_path / "bronze"), "none", (topic,), "1")
    bronze.append(session, asked, lambda _: kafka(session, {"t": records}))
    spec = SilverSpec("s", "t", asked.path, str(tmp_path / "silver"), COLUMNS, ("id",), schema_registry=kept.url)
    spec = replace(spec, envelope=form, connector="postgresql")
    silver.run(session, spec)
    assert sorted(values(spec.path), key=lambda found: found["id"]) == [
        silver_row(1, n=Decimal("0.512"), w1=None),
        silver_row(4, w2="four", **{"mo.re": None}),
        silver_row(5, **{"mo.re": 6}),
        silver_row(10),
        {**silver_row(12), "w0": "w0-2"},
    ]


def test_what_is_compared_is_not_decoded_again(
    session: SparkSession, kept: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan of the step that took minutes: it had a `from_avro` for each column of each schema that a key may come from."""
    records = in_avro(kept, changes())
    topic = TopicRange("t", "t", "id", 0, {0: (0, len(records))}, "debezium-avro", "postgresql", schema_registry=kept.url)
    path = str(tmp_path / "bronze")
    bronze.append(session, BronzeSpec(path, "none", (topic,), "1"), lambda _: kafka(session, {"t": records}))
    spec = SilverSpec("s", "t", path, "none", COLUMNS, ("id",), schema_registry=kept.url, envelope="debezium-avro")
    decoded = decode_changes(table_events(session, spec, 0), replace(spec, schema_ids=committed(path).topics["t"].schema_ids))
    own = of_keys(decoded, session.createDataFrame([(1,)], "c0 int"), spec)
    # One for the key, and one for each of the two schemas of values.
    assert len(PARSERS.findall(plan_text(own, capsys))) == 3
