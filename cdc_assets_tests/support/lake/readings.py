"""A topic of readings that others fill."""

from __future__ import annotations

import json

from confluent_kafka import Producer

SOURCE = """\
source: feeds
kind: topics
cluster: lake
tables:
  - {{name: readings, topic: {topic}, envelope: json, keys: [id], columns: {{id: integer not null, at: text}}}}
"""


def send(kafka: str, topic: str, key: int, at: str = "now") -> None:
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(topic, json.dumps({"id": key, "at": at}).encode(), json.dumps({"id": key}).encode())
    assert producer.flush(60) == 0
