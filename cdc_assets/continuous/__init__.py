"""Continuous mode: bronze and silver of a source in a loop, by the code and with the commits of the assets; no Dagster here."""
