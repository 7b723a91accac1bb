"""Windowed results of tables: what a run of them is, and how they are proven."""
