"""Declared aggregates of a silver table over windows of event time."""
