"""Exact counts along the chain: what lies in each link at one and the same position."""
