"""A sink's config against Aiven's own definitions, as they are in its repository at 89e55a9 (June 2026).

They are run by test_sink_live.py, where there is one:
https://github.com/Aiven-Open/cloud-storage-connectors-for-apache-kafka (FileNameFragment, OutputFormatFragment, S3ConfigFragment,
GcsSinkConfig, FilenameTemplateVariable, OutputFieldType, OutputFieldEncodingType, CompressionType, FormatType).
"""

from __future__ import annotations

import re

import pytest

from cdc_assets import settings
from cdc_assets.connectors.sink import sink_config
from cdc_assets.registry.models import Source
from cdc_assets_tests.render.registry import shop

COMMON = {
    "file.name.template",
    "file.compression.type",
    "format.output.type",
    "format.output.envelope",
    "format.output.fields",
    "format.output.fields.value.encoding",
}
OPTIONS = {
    "s3": COMMON | {"aws.s3.bucket.name", "aws.s3.region", "aws.s3.endpoint", "aws.access.key.id", "aws.secret.access.key"},
    "gcs": COMMON | {"file.name.prefix", "gcs.bucket.name", "gcs.credentials.default", "gcs.credentials.json"},
}
CLASSES = {
    "s3": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "gcs": "io.aiven.kafka.connect.gcs.GcsSinkConnector",
}
CONNECTS_OWN = {"name", "connector.class", "tasks.max", "topics", "key.converter", "value.converter", "header.converter"}
VARIABLES = {
    "topic": set(),
    "partition": {"padding=true", "padding=false"},
    "start_offset": {"padding=true", "padding=false"},
    "timestamp": {"unit=yyyy", "unit=MM", "unit=dd", "unit=HH"},
}
SINKS = [
    {"kind": "s3", "bucket": "lake-raw"},
    {"kind": "s3", "bucket": "lake-raw", "access_key_id": {"secret": "i"}, "secret_access_key": {"secret": "k"}},
    {"kind": "s3", "bucket": "lake-raw", "endpoint": "https://s3.example.com:9000"},
    {"kind": "gcs", "bucket": "lake-raw"},
    {"kind": "gcs", "bucket": "lake-raw", "credentials": {"secret": "c"}},
]


@pytest.mark.parametrize("sink", SINKS, ids=lambda sink: "-".join((sink["kind"], *sorted(sink)[1:])))
def test_every_option_and_value_is_one_of_theirs(sink: dict[str, object]) -> None:
    source, kind = shop(sink=sink), str(sink["kind"])
    assert isinstance(source, Source)
    assert source.sink is not None
    with settings.only({"CDC_CONNECT_SECRETS": "/secrets"}):
        config = sink_config(source, source.sink)
    own = {key for key in config if key not in CONNECTS_OWN and not key.startswith("consumer.override.")}
    assert own <= OPTIONS[kind]
    assert config["connector.class"] == CLASSES[kind]
    for variable, parameter in re.findall(r"\{\{(\w+)(?::([^}]*))?\}\}", config["file.name.template"]):
        assert not parameter or parameter in VARIABLES[variable]
    assert {"topic", "partition", "start_offset"} <= set(re.findall(r"\{\{(\w+)", config["file.name.template"]))
    assert config["file.compression.type"] in {"none", "gzip", "snappy", "zstd"}
    assert config["format.output.type"] in {"avro", "csv", "json", "jsonl", "parquet"}
    assert set(config["format.output.fields"].split(",")) <= {"key", "value", "offset", "timestamp", "headers"}
    assert config["format.output.fields.value.encoding"] in {"none", "base64"}
