"""A table's rows from its topic alone: records read and folded in plain Python, without bronze, silver or Spark."""
