"""Silver proved equal to its source at an exact position of the source's log, while both move.

See docs/explanation/reconciliation.md.
"""
