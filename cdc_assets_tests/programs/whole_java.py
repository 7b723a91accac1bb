"""A Java with all modules, for the Connect worker with MySQL's connector: the stack's own is trimmed."""

from __future__ import annotations

from pathlib import Path

from typing_extensions import override

from cdc_assets.stack.runtimes import SYSTEM, java_having
from cdc_assets_tests.programs.wanted import Program, unpacked

_MODULE = "jdk.charsets"


class WholeJava(Program):
    """Any of the machine's, or the one that was unpacked below the cache."""

    @override
    def is_here(self) -> bool:
        return find_java() is not None


WHOLE_JAVA = WholeJava(
    "a whole Java", ("java",), ("openjdk-21-jre-headless | openjdk-17-jre-headless | openjdk-25-jre-headless",)
)


def find_java() -> Path | None:
    """Its `java`."""
    return java_having([_MODULE], (SYSTEM, unpacked() / "root" / "usr" / "lib" / "jvm"))


def whole_java() -> Path:
    """The same.

    Raises:
        ProgramMissingError: there is none.
    """
    WHOLE_JAVA.require()
    found = find_java()
    assert found
    return found
