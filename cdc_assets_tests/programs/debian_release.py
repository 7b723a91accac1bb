"""A server of another release of Debian's than the system's: its packages with all that they need, unpacked below the cache.

They want newer libraries than the system's, the C library too: so their own linker starts them. Nothing of the system is changed.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from cdc_assets_tests.programs.apt import AptError, run
from cdc_assets_tests.programs.wanted import Program

_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def unpack_release(program: Program, folder: Path, prepare: Callable[[Path], Path]) -> None:
    """Fetch its packages into `folder`; `prepare` makes its command out of what lies in `root`, and tells where.

    Raises:
        AptError: this system asks no mirror of Debian's, or apt failed.
    """
    mirror, apt, command = _mirror(program), folder / "apt", folder / "bin" / program.commands[0]
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("lists/partial", "archives/partial"):
        (apt / name).mkdir(parents=True)
    (apt / "sources.list").write_text(f"deb [signed-by={_KEYS}] {mirror} {program.release} main\n", encoding="utf-8")
    # An empty state: every library is missing, so every one comes along.
    (apt / "status").touch()
    files = {"State": apt, "State::lists": apt / "lists", "State::status": apt / "status", "Cache": apt, "Log": apt}
    files |= {"Etc::sourcelist": apt / "sources.list", "Etc::sourceparts": Path("/dev/null")}
    options = [text for key, value in files.items() for text in ("-o", f"Dir::{key}={value}")]
    get = ("apt-get", *options, "-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=", "-qq")
    run(*get, "update")
    run(*get, "-y", "-d", "--no-install-recommends", "install", *program.packages)
    for package in sorted((apt / "archives").glob("*.deb")):
        run("dpkg", "-x", package, folder / "root")
    shutil.rmtree(apt)
    command.parent.mkdir()
    # Whoever looks for it finds it when it is known to run.
    new = prepare(folder / "root")
    run(new, "--no-defaults", "--version")
    command.symlink_to(new)


def script(root: Path, binary: Path, *options: str) -> str:
    """A shell script that runs one of its binaries."""
    linker = next((root / "usr").glob("lib*/ld-linux*"))
    libraries = sorted({str(file.parent) for file in (root / "usr" / "lib").rglob("libc.so.6")})
    start = [str(linker), "--library-path", ":".join(libraries), str(binary)]
    return f'#!/bin/sh\nexec {shlex.join(start)} "$@" {shlex.join(options)}\n'


def _mirror(program: Program) -> str:
    """The address at which this system asks for Debian's packages."""
    form = ("--format", "$(ORIGIN) $(COMPONENT) $(REPO_URI)", "Created-By: Packages")
    told = subprocess.run(["apt-get", "indextargets", *form], capture_output=True, text=True, check=False).stdout
    found = [line.split()[2] for line in told.splitlines() if line.startswith("Debian main ") and "security" not in line]
    if not found:
        raise AptError(f"apt asks no mirror of Debian's here; put {program.commands[0]} of {program.title} on the PATH")
    return found[0]
