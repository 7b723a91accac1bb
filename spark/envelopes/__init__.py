"""Envelopes: how a record of a topic says what happened to which row. One file each, one interface (envelope.py)."""
