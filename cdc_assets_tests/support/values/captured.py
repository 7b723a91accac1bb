"""Tables of one value per row and column, read and streamed by Debezium, and what silver makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cdc_assets_tests.support.lake.capture import Record
from cdc_assets_tests.support.lake.lake import Lake, values
from spark.specs import Column

STREAMED = 10_000
"""Added to the id of a row when it is written again, behind the snapshot."""


@dataclass
class CapturedValues:
    """`texts` of the database by row: column and text; `records` of Debezium by partition; both by table."""

    texts: dict[str, dict[int, tuple[str, str]]]
    records: dict[str, dict[int, list[Record]]]

    def sent(self, table: str) -> Iterator[tuple[int, str, Any]]:
        """Row, column and JSON leaf of each event."""
        for records in self.records[table].values():
            for record in records:
                after = json.loads(record.value or "")["after"]
                column, _ = self.texts[table][after["id"] % STREAMED]
                yield after["id"], column, after.get(column)

    def fold_exact(self, lake: Lake, columns: tuple[Column, ...]) -> Mapping[int, Mapping[str, Any]]:
        """Silver's rows of the table `exact` by id: each that was read, and each that was streamed."""
        for partition, records in self.records["exact"].items():
            lake.put("exact", *records, partition=partition)
        lake.append(lake.all_of("exact"))
        spec = lake.spec("exact", columns)
        lake.fold(spec)
        found = {row["id"]: row for row in values(spec.path)}
        texts = self.texts["exact"]
        assert sorted(found) == sorted([*texts, *(number + STREAMED for number in texts)])
        return found
