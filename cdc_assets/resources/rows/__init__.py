"""Rows of databases that are asked for nothing else, read page by page for the two-step method: a file per kind."""
