"""The ledger's words, for its job and its readers: no Spark here."""

from __future__ import annotations

WINDOW = 60
"""Seconds of the windows that are kept; an hour and a day are sums of them."""
EARLY, ON_TIME, LATE, TOO_LATE = "early", "on_time", "late", "too_late"
FATES = ("applied", "superseded", "older", "ignored", "quarantined", "redriven", "dropped", "unaccounted")
LINKS = ("topic", "mirror", "bronze")
HOPS = ("capture", "bronze", "silver")
