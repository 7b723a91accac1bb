"""Bronze tables as Spark writes them, made by delta-rs: no JVM. And an independent reading of a backup."""

from __future__ import annotations

import base64
import gzip
import json
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from spark.events.arrow_records import BRONZE_ARROW
from spark.table.commit_metadata import TopicCommit, bronze_metadata, fold

NOON = 1_795_262_400_000


@dataclass(frozen=True)
class Rec:
    """One Kafka record."""

    partition: int
    offset: int
    timestamp: int = NOON
    key: bytes | None = b'{"id":1}'
    value: bytes | None = b'{"op":"c"}'
    op: str | None = "c"
    headers: tuple[tuple[str, bytes | None], ...] = ()

    @property
    def kind(self) -> str:
        return "tombstone" if self.value is None else self.op or "unknown"


@dataclass
class Bronze:
    """A change log; `rows` is what was put in."""

    path: str
    topic_id: str = "topic-id-1"
    rows: dict[str, list[Rec]] = field(default_factory=dict)

    def append(
        self, table: str, records: Sequence[Rec], *, ends: dict[int, int] | None = None, epoch: int = 0, begins: bool = False
    ) -> None:
        """One commit with these records; `ends` where a range ends behind its last record (markers); `begins`: at offset 0."""
        topic = topic_of(table)
        committed = fold(self._commits())
        known = committed.topics.get(topic)
        at = known.positions if known is not None and not begins else {}
        ranges = {}
        for partition in {*(r.partition for r in records), *(ends or {})}:
            last = max((r.offset + 1 for r in records if r.partition == partition), default=0)
            ranges[partition] = (at.get(partition, 0), (ends or {}).get(partition, last))
        share = TopicCommit(
            table=table,
            topic_id=self.topic_id,
            epoch=epoch,
            ranges=ranges,
            records=len(records),
            by_op=dict(Counter(r.kind for r in records)),
            min_timestamp=min((r.timestamp * 1000 for r in records), default=None),
        )
        self.write(table, records, bronze_metadata(str(uuid.uuid4()), committed, {topic: share}), epoch)
        self.rows.setdefault(table, []).extend(records)

    def write(self, table: str, records: Sequence[Rec], metadata: str | None = None, epoch: int | None = 0) -> None:
        """Rows, whether a commit of ours says so or not."""
        rows = [
            {
                "table": table,
                "topic": topic_of(table),
                "partition": r.partition,
                "offset": r.offset,
                "timestamp": r.timestamp * 1000,
                "headers": [{"key": k, "value": v} for k, v in r.headers],
                "key": r.key,
                "value": r.value,
                "op": r.op,
                "position": None,
                "epoch": epoch,
            }
            for r in records
        ]
        arrow = pa.Table.from_pylist(rows, schema=BRONZE_ARROW)
        properties = CommitProperties(custom_metadata={"userMetadata": metadata}) if metadata else None
        write_deltalake(self.path, arrow, mode="append", commit_properties=properties)

    def _commits(self) -> list[tuple[int, str | None]]:
        if not DeltaTable.is_deltatable(self.path):
            return []
        return [(int(c["version"]), c.get("userMetadata")) for c in DeltaTable(self.path).history()]


def topic_of(table: str) -> str:
    return f"core.shop.public.{table}"


def records(start: int, count: int, *, partition: int = 0, timestamp: int = NOON) -> list[Rec]:
    return [Rec(partition, start + i, timestamp, value=f'{{"op":"c","n":{start + i}}}'.encode()) for i in range(count)]


def read_back(root: Path, source: str, table: str) -> list[Rec]:
    """Every record of every object that a manifest names, by nothing but gzip and json."""
    found: list[Rec] = []
    for manifest in sorted((root / source / table / "_manifests").glob("*.json")):
        for item in json.loads(manifest.read_text())["objects"]:
            found += read_object((root / item["key"]).read_bytes(), item["key"])
    return found


def read_object(data: bytes, key: str) -> Iterable[Rec]:
    folder = key.split("/")[-3:-1]
    for text in gzip.decompress(data).splitlines():  # of bytes: a str would split at U+2028 too
        raw = json.loads(text)
        moment = datetime.fromtimestamp(raw["timestamp"] / 1000, tz=timezone.utc)
        assert folder == [f"dt={moment:%Y-%m-%d}", f"hr={moment:%H}"], key
        headers = tuple((h["name"], _bytes(h, "value")) for h in raw["headers"])
        yield Rec(raw["partition"], raw["offset"], raw["timestamp"], _bytes(raw, "key"), _bytes(raw, "value"), raw["op"], headers)


def _bytes(raw: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_base64" in raw:
        return base64.b64decode(raw[f"{name}_base64"])
    return None if raw[name] is None else str(raw[name]).encode()
