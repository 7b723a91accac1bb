"""A MariaDB source as its connector sees it."""

from __future__ import annotations

from cdc_assets.resources.databases.binlog_capture import BinlogCapture
from cdc_assets.resources.databases.binlog_signals import BinlogSignals
from cdc_assets.resources.databases.mariadb import MariaDbDatabase


class MariaDbSignals(BinlogSignals, MariaDbDatabase):
    """A MariaDB's signal table."""


class MariaDbCapture(BinlogCapture, MariaDbSignals):
    """Its signal table, its place in the binlog, and the statements of it."""
