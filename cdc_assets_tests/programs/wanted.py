"""What the tests need of the operating system beside python3 and git, and where it is."""

from __future__ import annotations

import ctypes
import platform
import shlex
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import SkipTest

from cdc_assets.stack.jars.locked_jars import cache_folder

_ALSO = ("/usr/sbin", "/usr/local/sbin")
"""A user's PATH lacks them, where Debian has `mariadbd`."""


_BRINGING: list[Callable[[Program], None]] = []
"""Brings what a test asks for, where this run may: `bring_when_asked`."""


class ProgramMissingError(SkipTest):
    """A program is not here: pytest skips the test that asked for it, with this text as its reason."""


@dataclass(frozen=True)
class Program:
    """`commands`, `files` (below the system's root) and shared `libraries` that Debian's `packages` bring.

    Of `a | b` the first that the system knows. `options` are those of commands that move. `release`: another than the
    system's, whose packages are unpacked with all that they need.
    """

    title: str
    commands: tuple[str, ...]
    packages: tuple[str, ...]
    files: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    release: str = ""

    def is_here(self) -> bool:
        """In the system, or unpacked below the cache."""
        libraries = all(is_loadable(name) or find_library(name) for name in self.libraries)
        return libraries and all(map(find_command, self.commands)) and all(map(find_file, self.files))

    def reason_file(self) -> Path:
        """Holds why the last set-up could not bring it."""
        return unpacked() / "missing" / self.packages[0].partition(" ")[0]

    def require(self) -> None:
        """Raises ProgramMissingError where it is not here, and cannot be brought by who may."""
        if not self.is_here():
            for bring in _BRINGING:
                bring(self)
        if not self.is_here():
            file = self.reason_file()
            reason = file.read_text(encoding="utf-8") if file.exists() else "./cdc test installs it"
            raise ProgramMissingError(f"without {self.title}: {reason}")


MARIADB = Program(
    "MariaDB's server",
    ("mariadbd", "mariadb-install-db"),
    # Debian's mariadb-server itself would start a server with the machine.
    ("mariadb-server-core", "mariadb-client-core"),
    options=("--basedir={root}/usr",),
)
CHROMIUM = Program(
    "Chromium",
    ("chromium",),
    # Playwright's own Node.js needs the library, which no package of its wheel brings.
    ("chromium", "fonts-dejavu-core", "libatomic1"),
    libraries=("libatomic.so.1",),
)
LOCALES = Program("the sources of locales", ("localedef",), ("locales",), files=("usr/share/i18n/locales/en_US",))


def bring_when_asked(bring: Callable[[Program], None]) -> None:
    """From now on this brings a program that is missing when a test asks for it."""
    _BRINGING.append(bring)


def unpacked() -> Path:
    """Below the cache: `root` as packages have it, `bin` with what starts it from there. One for each release of a system."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    name = "-".join((release.get("ID", "linux"), release.get("VERSION_ID", "0"), platform.machine()))
    return cache_folder().parent / "system" / name


def find_command(name: str) -> str | None:
    """Its path: on the PATH, in the system's sbin, or below the cache."""
    return shutil.which(name) or next(
        (found for folder in (*_ALSO, str(unpacked() / "bin")) if (found := shutil.which(name, path=folder))), None
    )


def find_file(name: str) -> Path | None:
    """By its path below the system's root, where it is there or below the cache."""
    return next((file for root in (Path("/"), unpacked() / "root") if (file := root / name).exists()), None)


def is_loadable(name: str) -> bool:
    """Whether the system's linker finds the shared library."""
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def find_library(name: str) -> Path | None:
    """The shared library, where it was unpacked below the cache."""
    return next((unpacked() / "root").rglob(name), None)


def command(program: Program, name: str) -> str:
    """The path of one of its commands.

    Raises:
        ProgramMissingError: where the program is not here.
    """
    program.require()
    found = find_command(name)
    assert found
    return found


def script(program: Program, binary: Path, folder: Path) -> str:
    """A shell script that runs a command which was unpacked below `folder`/root."""
    root = folder / "root"
    libraries = sorted({str(file.parent) for place in ("usr/lib", "lib") for file in (root / place).rglob("lib*.so*")})
    options = [shlex.quote(option.format(root=root)) for option in program.options]
    return "\n".join(
        (
            "#!/bin/sh",
            f"export LD_LIBRARY_PATH={shlex.quote(':'.join(libraries))}",
            f"export FONTCONFIG_FILE={shlex.quote(str(folder / 'fonts.conf'))}",
            # Theirs last: some of them must be the first.
            f'exec {shlex.quote(str(binary))} "$@" {" ".join(options)}',
            "",
        )
    )
