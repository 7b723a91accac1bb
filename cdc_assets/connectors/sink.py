"""The sink connector of a source: its topics in the lake's cluster, raw, as gzip JSON lines in a bucket.

Aiven's connectors (Apache-2.0), which the worker must have: https://github.com/Aiven-Open/cloud-storage-connectors-for-apache-kafka
One object per partition, hour and first offset, so that a retried object overwrites itself. At-least-once.
"""

from __future__ import annotations

from cdc_assets import names
from cdc_assets.connectors.secret_placeholder import password_placeholder
from cdc_assets.registry.models import BaseSource
from cdc_assets.registry.sink import Sink

_FILE = (
    "{{topic}}/{{timestamp:unit=yyyy}}-{{timestamp:unit=MM}}-{{timestamp:unit=dd}}/{{timestamp:unit=HH}}/"
    "{{partition:padding=true}}-{{start_offset:padding=true}}.jsonl.gz"
)
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def sink_config(source: BaseSource, sink: Sink) -> dict[str, str]:
    """The connector's whole config. Keys and values are written as base64: the bytes as they are."""
    prefix = f"{sink.prefix}/{source.name}/"
    return {
        "name": names.sink_connector_name(source),
        "tasks.max": "1",
        "topics": ",".join(sorted(names.lake_topic(source, table) for table in source.tables)),
        "file.name.template": _FILE if sink.kind == "gcs" else prefix + _FILE,
        "file.compression.type": "gzip",
        "format.output.type": "jsonl",
        "format.output.envelope": "true",
        "format.output.fields": "key,value,offset,timestamp,headers",
        "format.output.fields.value.encoding": "base64",
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "header.converter": _BYTES,
        "consumer.override.isolation.level": "read_committed",
        "consumer.override.auto.offset.reset": "earliest",
        **(_gcs(sink, prefix) if sink.kind == "gcs" else _s3(sink)),
    }


def _gcs(sink: Sink, prefix: str) -> dict[str, str]:
    access = {"gcs.credentials.default": "true"}
    if sink.credentials:
        access = {"gcs.credentials.json": password_placeholder(sink.credentials)}
    return {
        "connector.class": "io.aiven.kafka.connect.gcs.GcsSinkConnector",
        "gcs.bucket.name": sink.bucket,
        "file.name.prefix": prefix,
        **access,
    }


def _s3(sink: Sink) -> dict[str, str]:
    access = {}
    if sink.access_key_id and sink.secret_access_key:
        access = {
            "aws.access.key.id": password_placeholder(sink.access_key_id),
            "aws.secret.access.key": password_placeholder(sink.secret_access_key),
        }
    return {
        "connector.class": "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
        "aws.s3.bucket.name": sink.bucket,
        "aws.s3.region": sink.region,
        **({"aws.s3.endpoint": sink.endpoint} if sink.endpoint else {}),
        **access,
    }
