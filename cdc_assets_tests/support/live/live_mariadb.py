"""MariaDB with the product's own connector on the Connect worker of `live_source`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cdc_assets.clients.databases.mariadb import MariaDbDatabase
from cdc_assets.registry.source_declaration import CapturedSource, Source
from cdc_assets.stack.loopback import HOST
from cdc_assets_tests.support.live.live_binlog import SECRET, LiveBinlog


class LiveMariaDb(LiveBinlog):
    """A MariaDB and, once `capture` has been called, a connector."""

    def source(self, tables: Sequence[str | Mapping[str, object]], **values: str) -> Source:
        """The registry's declaration of these tables."""
        database = {"kind": "mariadb", "host": HOST, "port": self.server.port, "user": "cdc", "password": {"secret": SECRET}}
        declared = [{"name": t} if isinstance(t, str) else t for t in tables]
        capture = {"values": values} if values else {}
        return Source.model_validate({"source": self.name, "database": database, "capture": capture, "tables": declared})

    def reads(self, source: CapturedSource) -> MariaDbDatabase:
        """The product's view of the server."""
        return MariaDbDatabase(source.database)  # type: ignore[arg-type]
