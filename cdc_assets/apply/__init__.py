"""Connectors as declared: a source is judged whole, then what it needs is made, the capturing connector first."""
