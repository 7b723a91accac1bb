"""A source's lake as far as its logs are looked at: appends of bronze, folds of silver, counts of the ledger."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from cdc_assets.clients.delta_log import bronze_committed, silver_committed
from cdc_assets.recovery.maintenance import tables_in_lake
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.support.delta_logs import append_bronze
from spark.proof.ledger_contract import Counted, ledger_metadata
from spark.table.commit_metadata import Folded, silver_metadata

SOURCE = """
source: shop
database: {kind: postgresql, host: db, dbname: shop, user: u, password: {secret: shop}}
maintenance: {time_travel: 1h}
tables: [{name: public.orders}, {name: public.lines}]
"""


class Shop:
    """The source's lake as far as its logs are looked at."""

    def __init__(self, folder: Path, source: Source) -> None:
        self.lake, self.source = str(folder / "lake"), source
        self.bronze = Path(names.bronze_path(self.lake, source))
        self.ends = {"orders": 0, "lines": 0}

    def topic(self, table: str) -> str:
        return names.lake_topic(self.source, self.source.table(table))

    def append(self, table: str, count: int = 1) -> None:
        start = self.ends[table]
        self.ends[table] += count
        version = DeltaTable(str(self.bronze)).version() + 1 if self.bronze.exists() else 0
        append_bronze(self.bronze, self.topic(table), table, "id", start, start + count, version=version, seen=True)

    def silver(self, table: str) -> Path:
        return Path(names.silver_path(self.lake, self.source, self.source.table(table)))

    def fold(self, table: str) -> None:
        committed = bronze_committed(str(self.bronze))
        assert committed is not None
        topics = committed.of_table(table)
        operation = f"fold-{committed.version}"
        write(self.silver(table), silver_metadata(operation, Folded(committed.version, topics), {}))

    def count(self) -> None:
        """The ledger has counted all that silver has folded."""
        tables = {}
        for table in self.ends:
            folded = silver_committed(str(self.silver(table)))
            if folded is not None:
                tables[table] = Counted(folded.version, folded.operation_id, folded.topics)
        write(Path(names.ledger_path(self.lake, self.source)), ledger_metadata("l", tables))

    def needs(self) -> dict[str, list[tuple[int, str]]]:
        found = tables_in_lake(self.lake, self.source)
        return {table.name: [(need.version, need.reason) for need in table.spec.needs] for table in found}


def write(path: Path, metadata: str) -> None:
    rows = pa.table({"id": pa.array([1], pa.int64())})
    properties = CommitProperties(custom_metadata={"userMetadata": metadata})
    write_deltalake(str(path), rows, mode="append", commit_properties=properties)
