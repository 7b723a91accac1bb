"""Folds a source's tables: the small ones in the tasks of one Spark job, the others by a job each."""
