"""Maintenance of a source's tables in the lake: which they are, who still reads what of them, what is done, what falls behind."""
