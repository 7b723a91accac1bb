"""What Spark will really do: each record is parsed as often as written here, and never by Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as sf

from cdc_assets_tests.support.lake.avro import registry
from cdc_assets_tests.support.lake.plans import PARSERS, plan_text
from cdc_assets_tests.support.values.avro_events import FIELDS, NEW
from spark.bronze.batch_records import drafts
from spark.events.text_leaves import leaves
from spark.specs import Column, SilverSpec, TopicRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = (Column("id", "integer", False), *(Column(name, "text") for name in ("big", "ratio", "ok", "raw")))
MARKS = [{"name": f"__{name}", "type": ["null", "string"]} for name in ("op", "deleted", "source_ts_ms")]
FLAT = {"type": "record", "name": "Flat", "fields": [*FIELDS, *MARKS]}
# Parses per record in bronze, and in silver: the value and the key, and what lies inside of them as text.
TIMES = {
    ("debezium-json", "postgresql"): (1, 2),
    ("debezium-json-schema", "postgresql"): (1, 2),
    ("debezium-unwrapped", "postgresql"): (1, 2),
    ("debezium-avro", "postgresql"): (1, 2),
    ("debezium-unwrapped-avro", "topic"): (1, 2),
    ("debezium-mongodb", "mongodb"): (1, 4),
    ("attunity-json", "attunity"): (1, 1),
    # What lies inside may be a text, which is looked at before.
    ("event-json", "topic"): (1, 3),
    ("json", "topic"): (0, 2),
    ("avro", "topic"): (0, 2),
}
# Of records of others: whether value and key are one value each.
MORE_OF_OTHERS = {form: 0 if "avro" in form[0] else 2 for form in TIMES}


@pytest.mark.parametrize("foreign", [False, pytest.param(True, marks=pytest.mark.all)], ids=["ours", "of others"])
@pytest.mark.parametrize("form", TIMES, ids="/".join)
def test_each_record_is_parsed_once(
    session: SparkSession, form: tuple[str, str], foreign: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    head = sf.unhex(sf.lit("0000000001"))
    data = sf.concat(head, sf.col("id").cast("string").cast("binary"))
    records = session.range(3).select(
        sf.lit("t").alias("topic"),
        sf.col("id").cast("int").alias("partition"),
        sf.col("id").alias("offset"),
        sf.timestamp_micros(sf.col("id")).alias("timestamp"),
        sf.array(sf.struct(sf.col("id").cast("string").alias("key"), data.alias("value"))).alias("headers"),
        *[data.alias(name) for name in ("key", "value")],
    )
    with registry() as kept:
        kept.register("v", NEW if form[0] == "debezium-avro" else FLAT)
        topic = TopicRange("t", "t", "id", 0, {0: (0, 3)}, *form, schema_registry=kept.url)
        own = {"envelope": form[0], "connector": form[1], "schema_registry": kept.url}
        spec = SilverSpec("s", "t", "none", "none", COLUMNS, ("id",), foreign=foreign, **own)  # type: ignore[arg-type]
        bronze = drafts(records, [topic])
        bronze_plan = plan_text(bronze.drop("key", "value", "headers"), capsys)
        # Silver reads bronze's columns from files.
        events = records.select(
            "*",
            *[sf.col("offset").cast("string").alias(n) for n in ("op", "position", "tx_id", "snapshot")],
            sf.col("timestamp").alias("source_ts"),
        )
        silver_plan = plan_text(leaves(events, spec), capsys)
    assert "Python" not in bronze_plan + silver_plan
    in_bronze, in_silver = TIMES[form]
    wanted = in_bronze, in_silver + (MORE_OF_OTHERS[form] if foreign else 0)
    assert (len(PARSERS.findall(bronze_plan)), len(PARSERS.findall(silver_plan))) == wanted
