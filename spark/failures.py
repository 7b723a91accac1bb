"""What Spark raises, in both kinds of session: a classic one lets some Java exceptions through as py4j's own."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

SPARK_FAILURES: tuple[type[Exception], ...] = (PySparkException, Py4JJavaError)


def described(error: Exception) -> str:
    """The error's condition and message; what callers look for stands in the first part of it."""
    condition = error.getCondition() if isinstance(error, PySparkException) else None
    return f"{condition or ''} {error}"[:20_000]
