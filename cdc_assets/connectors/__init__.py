"""Declared connector configurations, rendered from the registry; pure data, no service touched."""
