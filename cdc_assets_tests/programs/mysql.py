"""Bring MySQL's server for the tests of `--all`: `python -m cdc_assets_tests.programs.mysql`.

Of Debian's releases only the unstable one has it. Its packages want newer libraries than the system's, the C library too: so
all of them are unpacked below the cache (270 MB), and their own linker starts the server. Nothing of the system is changed.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

from cdc_assets_tests.programs.apt import AptError, run
from cdc_assets_tests.programs.wanted import unpacked

_PACKAGE, _RELEASE = "mysql-server-core", "sid"
_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def unpacked_mysqld() -> Path:
    """Where `bring` puts the command."""
    return unpacked() / "mysql" / "bin" / "mysqld"


def bring() -> Path:
    """Fetch and unpack it; the command.

    Raises:
        AptError: this system has no apt, asks no mirror of Debian's, or apt failed.
    """
    command, mirror = unpacked_mysqld(), _mirror()
    folder, apt = command.parent.parent, command.parent.parent / "apt"
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("lists/partial", "archives/partial"):
        (apt / name).mkdir(parents=True)
    (apt / "sources.list").write_text(f"deb [signed-by={_KEYS}] {mirror} {_RELEASE} main\n", encoding="utf-8")
    # An empty state: every library is missing, so every one comes along.
    (apt / "status").touch()
    files = {"State": apt, "State::lists": apt / "lists", "State::status": apt / "status", "Cache": apt, "Log": apt}
    files |= {"Etc::sourcelist": apt / "sources.list", "Etc::sourceparts": Path("/dev/null")}
    options = [text for key, value in files.items() for text in ("-o", f"Dir::{key}={value}")]
    get = ("apt-get", *options, "-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=", "-qq")
    run(*get, "update")
    run(*get, "-y", "-d", "--no-install-recommends", "install", _PACKAGE)
    for package in sorted((apt / "archives").glob("*.deb")):
        run("dpkg", "-x", package, folder / "root")
    shutil.rmtree(apt)
    command.parent.mkdir()
    command.write_text(_script(folder / "root"), encoding="utf-8")
    command.chmod(0o755)
    run(command, "--no-defaults", "--version")
    return command


def _mirror() -> str:
    """The address at which this system asks for Debian's packages."""
    if not shutil.which("apt-get"):
        raise AptError("this system has no apt-get; put a mysqld of MySQL's on the PATH")
    form = ("--format", "$(ORIGIN) $(COMPONENT) $(REPO_URI)", "Created-By: Packages")
    told = subprocess.run(["apt-get", "indextargets", *form], capture_output=True, text=True, check=False).stdout
    found = [line.split()[2] for line in told.splitlines() if line.startswith("Debian main ") and "security" not in line]
    if not found:
        raise AptError("apt asks no mirror of Debian's here; put a mysqld of MySQL's on the PATH")
    return found[0]


def _script(root: Path) -> str:
    linker, usr = next((root / "usr").glob("lib*/ld-linux*")), root / "usr"
    libraries = sorted({str(file.parent) for file in (usr / "lib").rglob("libc.so.6")})
    start = [str(linker), "--library-path", ":".join(libraries), str(usr / "sbin" / "mysqld")]
    return f'#!/bin/sh\nexec {shlex.join(start)} "$@" --basedir={shlex.quote(str(usr))}\n'


if __name__ == "__main__":
    try:
        print(bring())
    except AptError as error:
        raise SystemExit(f"cdc: MySQL's server is not brought: {error}") from None
