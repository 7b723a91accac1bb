"""Spark for the hostile workload."""

from cdc_assets_tests.spark.conftest import remote, session

__all__ = ["remote", "session"]
