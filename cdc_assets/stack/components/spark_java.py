"""What every Java process of Spark is started with here: the packages that it opens, and variables that its tasks need."""

from __future__ import annotations

import os

# What Spark's own launcher opens for it on Java 17 and newer (JavaModuleOptions).
OPENS = (
    "java.lang",
    "java.lang.invoke",
    "java.lang.reflect",
    "java.io",
    "java.net",
    "java.nio",
    "java.util",
    "java.util.concurrent",
    "java.util.concurrent.atomic",
    "jdk.internal.ref",
    "sun.nio.ch",
    "sun.nio.cs",
    "sun.security.action",
    "sun.util.calendar",
)


def store_variables() -> dict[str, str]:
    """Names of object stores, for a lake on s3a:// or gs://."""
    return {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "GOOGLE_"))}
