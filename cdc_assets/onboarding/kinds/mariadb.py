"""MariaDB: what it does differently from MySQL."""

from __future__ import annotations

from cdc_assets.kinds import expect
from cdc_assets.onboarding.kinds.binlog import BinlogKind
from cdc_assets.registry.mariadb import MariaDb
from cdc_assets.registry.models import CapturedSource
from cdc_assets.resources.databases.mariadb_capture import MariaDbCapture


class MariaDbKind(BinlogKind):
    """Onboarding of tables in MariaDB (`work.OnboardingKind`)."""

    def database(self, source: CapturedSource) -> MariaDbCapture:
        """The source's MariaDB, opened for capture."""
        return MariaDbCapture(expect(source.database, MariaDb))
