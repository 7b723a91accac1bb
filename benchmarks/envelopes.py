"""What an envelope costs: bronze and silver of the same changes in each form, as ratios to plain Debezium JSON.

    python -m benchmarks.envelopes [--events 60000] [--rounds 4] [--warm-up 3]

Records lie in a Parquet file instead of Kafka, so that only decoding and writing differ. Seconds, and seconds of processor time,
which neighbours hardly change. The best of the rounds counts, since they only ever make a round slower; forms take turns in who
comes first. Exit 1 where decoding for both layers costs more processor time than AT_MOST times that of plain JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.paired import Took, took
from cdc_assets_tests.support.lake.avro import framed, registry
from cdc_assets_tests.support.lake.jvm import spark_connect
from spark.bronze import append_job as bronze
from spark.bronze.batch_records import drafts
from spark.bronze.change_log import table_events
from spark.silver import fold_job as silver
from spark.silver.typed_changes import decode_changes
from spark.specs import BronzeSpec, Column, SilverSpec, TopicRange
from spark.table import spark_plans
from spark.table.spark_session import connect

DECODING = "decode, both"
AT_MOST = {"debezium-json-schema": 1.6, "debezium-avro": 0.8}
COLUMNS = (
    Column("aid", "integer", False),
    Column("bid", "integer"),
    Column("abalance", "integer"),
    Column("filler", "character(84)"),
    Column("at", "timestamp without time zone"),
)
_INT, _TEXT = ["null", "int"], ["null", "string"]
_ROW = [
    {"name": "aid", "type": "int"},
    *({"name": name, "type": _INT} for name in ("bid", "abalance")),
    {"name": "filler", "type": _TEXT},
    {"name": "at", "type": ["null", {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}]},
]
_SOURCE = [
    *({"name": name, "type": "string"} for name in ("version", "connector", "name")),
    {"name": "ts_ms", "type": "long"},
    {"name": "snapshot", "type": _TEXT},
    {"name": "db", "type": "string"},
    {"name": "sequence", "type": _TEXT},
    *({"name": name, "type": ["null", "long"]} for name in ("ts_us", "ts_ns")),
    *({"name": name, "type": "string"} for name in ("schema", "table")),
    *({"name": name, "type": ["null", "long"]} for name in ("txId", "lsn", "xmin")),
]
VALUE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "bench.public.accounts",
    "fields": [
        {"name": "before", "type": ["null", {"type": "record", "name": "Value", "fields": _ROW}]},
        {"name": "after", "type": ["null", "Value"]},
        {"name": "source", "type": {"type": "record", "name": "Source", "namespace": "io.debezium", "fields": _SOURCE}},
        {"name": "transaction", "type": _TEXT},
        {"name": "op", "type": "string"},
        *({"name": name, "type": ["null", "long"]} for name in ("ts_ms", "ts_us", "ts_ns")),
    ],
}
KEY = {"type": "record", "name": "Key", "namespace": "bench.public.accounts", "fields": [_ROW[0]]}


def changes(events: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Inserts as Debezium 3.7 sends them for pgbench's accounts, and a third of updates."""
    base = 1_700_000_000_000
    for i in range(events):
        at = base + i
        row = {"aid": i % (events * 2 // 3), "bid": i % 10, "abalance": i * 7 % 10_000, "filler": f"{i:084d}", "at": at * 1000}
        source = {
            **{"version": "3.7.0.Final", "connector": "postgresql", "name": "bench", "ts_ms": at, "snapshot": "false"},
            **{"db": "bench", "sequence": f'["{4096 + i * 80}","{4100 + i * 80}"]', "ts_us": at * 1000, "ts_ns": at * 1_000_000},
            **{"schema": "public", "table": "accounts", "txId": 700 + i, "lsn": 4100 + i * 80, "xmin": None},
        }
        times = {"ts_ms": at + 5, "ts_us": (at + 5) * 1000, "ts_ns": (at + 5) * 1_000_000}
        op = "c" if i < events * 2 // 3 else "u"
        yield {"aid": row["aid"]}, {"before": None, "after": row, "source": source, "transaction": None, "op": op, **times}


def connect_schema(name: str, avro: Any, field: str | None = None) -> dict[str, Any]:
    """The schema that the JSON converter repeats in every record."""
    if isinstance(avro, list):
        return {**connect_schema(name, avro[1], field), "optional": True}
    if isinstance(avro, dict) and avro["type"] == "record":
        fields = [connect_schema(f"{name}.{f['name']}", f["type"], f["name"]) for f in avro["fields"]]
        found: dict[str, Any] = {"type": "struct", "fields": fields, "optional": False, "name": f"{name}.{avro['name']}"}
    else:
        kind = avro["type"] if isinstance(avro, dict) else avro
        if kind == "Value":
            return {**connect_schema(name, VALUE["fields"][0]["type"], field), "field": field}  # type: ignore[index]
        found = {"type": {"int": "int32", "long": "int64"}.get(kind, kind), "optional": False}
    return {**found, "field": field} if field else found


Encode = Callable[[dict[str, Any], dict[str, Any]], tuple[bytes, bytes]]


def encoders(key_id: int, value_id: int) -> dict[str, Encode]:
    """Key and value of a change in each form."""
    schemas = json.dumps(connect_schema("bench", KEY)), json.dumps(connect_schema("bench", VALUE))

    def plain(document: dict[str, Any]) -> str:
        return json.dumps(document, separators=(",", ":"))

    def wrapped(document: dict[str, Any], schema: str) -> bytes:
        return f'{{"schema":{schema},"payload":{plain(document)}}}'.encode()

    return {
        "debezium-json": lambda key, value: (plain(key).encode(), plain(value).encode()),
        "debezium-json-schema": lambda key, value: (wrapped(key, schemas[0]), wrapped(value, schemas[1])),
        "debezium-avro": lambda key, value: (framed(key_id, KEY, key), framed(value_id, VALUE, value)),
    }


def write(file: Path, topic: str, events: int, encode: Encode) -> None:
    """The records as Spark's Kafka source would give them."""
    pairs = [encode(key, value) for key, value in changes(events)]
    now = datetime(2026, 1, 1, tzinfo=timezone.utc)
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    columns = {
        "topic": pa.array([topic] * events),
        "partition": pa.array([0] * events, pa.int32()),
        "offset": pa.array(range(events), pa.int64()),
        "timestamp": pa.array([now] * events, pa.timestamp("us", tz="UTC")),
        "headers": pa.array([[]] * events, headers),
        "key": pa.array([key for key, _ in pairs], pa.binary()),
        "value": pa.array([value for _, value in pairs], pa.binary()),
    }
    pq.write_table(pa.table(columns), file, compression="none")


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--warm-up", type=int, default=3, help="rounds that do not count: Java compiles meanwhile")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="cdc-bench-"))
    try:
        with registry() as schemas:
            ids = schemas.register("k", KEY), schemas.register("v", VALUE)
            forms = encoders(*ids)
            for name, encode in forms.items():
                write(folder / f"{name}.parquet", name, chosen.events, encode)
            return show(chosen.events, measure(chosen, folder, list(forms), (schemas.url, ids)))
    finally:
        shutil.rmtree(folder)


Seconds = dict[str, dict[str, list[Took]]]
Schemas = tuple[str, tuple[int, int]]
"""The registry's address, the ids of key and value."""


def measure(chosen: argparse.Namespace, folder: Path, forms: Sequence[str], schemas: Schemas) -> Seconds:
    """Seconds by step, form and round."""
    with spark_connect(folder / "spark", optimize=True) as (remote, _):
        return _rounds(connect(remote), chosen, folder, forms, schemas)


def _rounds(session: SparkSession, chosen: argparse.Namespace, folder: Path, forms: Sequence[str], schemas: Schemas) -> Seconds:
    taken: Seconds = {}
    for number in range(chosen.warm_up + chosen.rounds):
        turn = number % len(forms)
        for name in (*forms[turn:], *forms[:turn]):
            lake = folder / f"{name}-{number}"
            for step, one in _timed(session, folder / f"{name}.parquet", lake, name, schemas, chosen.events):
                if number >= chosen.warm_up:
                    taken.setdefault(step, {}).setdefault(name, []).append(one)
            shutil.rmtree(lake)
    return taken


def _timed(session: SparkSession, file: Path, lake: Path, form: str, schemas: Schemas, events: int) -> Iterator[tuple[str, Took]]:
    """Decoding alone, its result thrown away, and the whole jobs; a tenth of the records is in bronze before."""
    (url, (key_id, value_id)), first = schemas, events // 10
    ids = {"key": [key_id], "value": [value_id]}
    topic = TopicRange("accounts", form, "id", 0, {0: (first, events)}, envelope=form, schema_registry=url)
    asked = BronzeSpec(str(lake / "bronze"), "none", (topic,), uuid.uuid4().hex)
    spec = SilverSpec(
        *("bench", "accounts", asked.path, str(lake / "silver"), COLUMNS, ("aid",)), envelope=form, schema_registry=url
    )

    def nowhere(rows: DataFrame) -> None:
        rows.write.format("noop").mode("overwrite").save()

    everything = session.read.parquet(str(file))
    before, records = (everything.where(f"offset {sign} {first}") for sign in ("<", ">="))
    start = replace(asked, topics=(replace(topic, ranges={0: (0, first)}),), operation_id=uuid.uuid4().hex)
    bronze.append(session, start, lambda _: before)
    # As the jobs on so many events are executed.
    spark_plans.suit(session, events=events)
    told = replace(spec, schema_ids=ids)
    steps: tuple[tuple[str, Callable[[], object]], ...] = (
        ("decode for bronze", lambda: nowhere(drafts(records, [topic], {form: ids}).drop("key", "value", "headers"))),
        ("bronze", lambda: bronze.append(session, asked, lambda _: records)),
        ("decode for silver", lambda: nowhere(decode_changes(table_events(session, spec, 1), told))),
        ("silver, first load", lambda: silver.run(session, spec)),
    )
    for step, work in steps:
        yield step, took(work)


def show(events: int, taken: Seconds) -> int:
    """The best round, and ratios to the plain JSON; decoding and jobs summed over both layers. The exit code."""
    sums = {DECODING: ("decode for bronze", "decode for silver"), "jobs, both": ("bronze", "silver, first load")}
    for total, steps in sums.items():
        taken[total] = {
            form: [_sum(both) for both in zip(*(taken[s][form] for s in steps), strict=True)] for form in taken[steps[0]]
        }
    dear = 0
    for step, by_form in taken.items():
        wall, cpu = _best(by_form["debezium-json"])
        for form, times in sorted(by_form.items()):
            best = _best(times)
            rate = f"{events / best.wall:>9,.0f} events/s"
            shown = f"{best.wall:6.2f} s x{best.wall / wall:.2f} {rate}   processor {best.cpu:6.2f} s x{best.cpu / cpu:.2f}"
            missed = step == DECODING and best.cpu / cpu > AT_MOST.get(form, 1)
            dear |= missed
            print(f"{step:<20} {form:<22} {shown}{f'   more than x{AT_MOST[form]}' if missed else ''}")
    print(f"load {os.getloadavg()[0]:.1f}")
    return int(dear)


def _sum(both: Sequence[Took]) -> Took:
    return Took(sum(t.wall for t in both), sum(t.cpu for t in both))


def _best(times: Sequence[Took]) -> Took:
    return Took(min(t.wall for t in times), min(t.cpu for t in times))


if __name__ == "__main__":
    sys.exit(main())
