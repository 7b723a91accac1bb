"""Figures of every chain for Prometheus: read from logs, offsets and Dagster's answers, at most once in a while."""
