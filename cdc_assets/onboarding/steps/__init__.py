"""The steps that routes are put together from, one file per concern; each may be repeated."""
