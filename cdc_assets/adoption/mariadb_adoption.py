"""A MariaDB connector that is taken over."""

from __future__ import annotations

from cdc_assets.adoption.binlog_adoption import BinlogAdoption
from cdc_assets.kinds import expect
from cdc_assets.registry.mariadb import MariaDb
from cdc_assets.registry.models import CapturedSource
from cdc_assets.resources.databases.mariadb import MariaDbDatabase


class MariaDbAdoption(BinlogAdoption):
    """What `cdc adopt` reads of a MariaDB source."""

    KIND = "mariadb"

    def server(self, source: CapturedSource) -> MariaDbDatabase:
        """The source's MariaDB, opened for questions."""
        return MariaDbDatabase(expect(source.database, MariaDb))
