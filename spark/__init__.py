"""Spark jobs of the lake: Kafka to bronze, bronze to silver.

Pure PySpark: no orchestrator, no environment reading. A job takes a session and a frozen spec, commits to
Delta at most once, and returns a JobResult. Modules without `pyspark` in their imports (specs, commits, errors)
are safe to import anywhere.
"""
