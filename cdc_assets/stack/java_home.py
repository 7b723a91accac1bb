"""A Java for Spark's own launchers: the stack's, or a folder with a `bin/java` that leaves out what that Java does not have."""

from __future__ import annotations

import shlex
from pathlib import Path

from cdc_assets.stack.home import private_folder, write_private
from cdc_assets.stack.java import java, java_modules

_MODULE = "jdk.incubator.vector"
_SHIM = """\
#!/bin/sh
# Spark asks for a module that this Java lacks, and that Spark does without.
for argument do
    shift
    [ "$argument" = --add-modules={module} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home(folder: Path) -> Path:
    """Of the stack's Java, or a folder with a `bin/java` that leaves out what that Java does not have."""
    executable = java()
    if _MODULE in java_modules():
        return executable.parents[1]
    script = private_folder(folder / "java" / "bin") / "java"
    write_private(script, _SHIM.format(module=_MODULE, java=shlex.quote(str(executable))))
    script.chmod(0o700)
    return folder / "java"
