"""Connectors that others have made and that run, taken over."""
