"""Positions: an event's place in the order of truth, one file per kind of source; layout.py has what all share."""
