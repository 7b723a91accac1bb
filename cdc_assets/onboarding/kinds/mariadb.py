"""MariaDB: what it does differently from MySQL."""

from __future__ import annotations

from cdc_assets.onboarding.kinds.binlog import BinlogKind
from cdc_assets.registry.mariadb import MariaDb
from cdc_assets.registry.models import CapturedSource
from cdc_assets.resources.databases.mariadb_capture import MariaDbCapture


class MariaDbKind(BinlogKind):
    """See `kind.OnboardingKind`."""

    def database(self, source: CapturedSource) -> MariaDbCapture:
        """The source's MariaDB, opened for capture."""
        assert isinstance(source.database, MariaDb)
        return MariaDbCapture(source.database)
