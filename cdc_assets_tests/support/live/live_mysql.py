"""MySQL with the product's own connector (Debezium's for MySQL) on the Connect worker of `live_source`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cdc_assets.clients.databases.mysql import MySqlCapture
from cdc_assets.registry.databases import MySql
from cdc_assets.registry.source_declaration import CapturedSource, UnaskedSource
from cdc_assets.stack.loopback import HOST
from cdc_assets_tests.support.live.live_binlog import SECRET, LiveBinlog

PLAIN: dict[str, Any] = {"keys": ["id"], "columns": {"id": "integer not null", "v": "text"}}
"""What is declared of a table that is given by its name alone: `(id int PRIMARY KEY, v varchar(100))`."""


@dataclass(frozen=True)
class LiveMySql(LiveBinlog):
    """A MySQL and, once `capture` has been called, a connector; what its source declares besides tables."""

    sslmode: str = "preferred"
    reconciliation: Mapping[str, str] = field(default_factory=dict)

    def source(self, tables: Sequence[str | Mapping[str, object]], **values: str) -> UnaskedSource:
        """The registry's declaration of these tables."""
        place = {"host": HOST, "port": self.server.port, "sslmode": self.sslmode}
        database = {"kind": "mysql", **place, "user": "cdc", "password": {"secret": SECRET}}
        declared = [{"name": t, **PLAIN} if isinstance(t, str) else t for t in tables]
        made = {"source": self.name, "database": database, "reconciliation": self.reconciliation, "tables": declared}
        return UnaskedSource.model_validate(made | ({"capture": {"values": values}} if values else {}))

    def reads(self, source: CapturedSource) -> MySqlCapture:
        """The product's view of the server."""
        assert isinstance(source.database, MySql)
        return MySqlCapture(source.database)
