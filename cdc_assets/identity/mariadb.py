"""Whether a MariaDB's connector may go on: its binlog holds what has not been read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cdc_assets import names
from cdc_assets.identity.judge import Verdict
from cdc_assets.identity.memory import Known, Memory
from cdc_assets.identity.purged_binlog import binlog_verdict
from cdc_assets.kinds import expect
from cdc_assets.registry.mariadb import MariaDb
from cdc_assets.registry.models import Source
from cdc_assets.resources.databases.mariadb import MariaDbDatabase
from cdc_assets.resources.platform import Platform


def verdict(
    platform: Platform, source: Source, offsets: Sequence[Mapping[str, Any]] | None = None, known: Known | None = None
) -> Verdict:
    """Asks the server for its files, and Connect for the connector's place, unless `offsets` tell another one.

    Which server it is does not matter (`known`): its files have names of their own.
    """
    opening = Memory.of(source.name).opening
    if opening is not None:
        return Verdict("other", opening.reason)
    connect, name = platform.core_connect(source.cluster), names.connector_name(source)
    offsets = connect.offsets(name) if offsets is None else offsets
    found = binlog_verdict(MariaDbDatabase(expect(source.database, MariaDb)).binlog(), offsets)
    if found.kind == "other" and (status := connect.status(name)) is not None and status.running:
        # What reads has its file open, wherever the offset was stored last.
        return Verdict("same")
    return found
