"""Cuts of a source's log: where in the topics a place between two commits lies."""
