"""Source types to lake types: one module per family, each a list of rules; `registry` finds the rule of a column."""
