"""Bronze to silver: the current state of a table; records that cannot be folded wait in quarantine."""
