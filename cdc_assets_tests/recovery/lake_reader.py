"""Who reads bronze of the source shop: silver and the ledger."""

from __future__ import annotations

from pathlib import Path

from cdc_assets.clients.delta_log import bronze_committed
from cdc_assets.clients.platform import Platform
from cdc_assets.registry import names
from cdc_assets.registry.source_declaration import Source
from cdc_assets_tests.recovery.shop_logs import write
from spark.proof.ledger_contract import Counted, ledger_metadata
from spark.table.commit_metadata import Committed, Folded, silver_metadata


class Reader:
    """Silver and ledger as far as their logs are looked at."""

    def __init__(self, shop: Source) -> None:
        self.shop, self.lake, self.number = shop, Platform().lake, 0

    def read(self, *tables: str, silver: Committed | None = None, counted: Committed | None = None) -> None:
        """What bronze has now, or had then."""
        now = bronze_committed(names.bronze_path(self.lake, self.shop))
        assert now is not None
        self.number += 1
        silver, counted = silver or now, counted or now
        for table in tables:
            folded = Folded(silver.version, silver.of_table(table))
            path = names.silver_path(self.lake, self.shop, self.shop.table(table))
            write(Path(path), silver_metadata(f"fold-{self.number}", folded, {}))
        counts = {table: Counted(0, "fold", counted.of_table(table)) for table in tables}
        write(Path(names.ledger_path(self.lake, self.shop)), ledger_metadata(f"count-{self.number}", counts))
