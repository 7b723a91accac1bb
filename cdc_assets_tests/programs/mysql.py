"""MySQL's server: the `mysqld` on the PATH, or Debian's of another release.

Of Debian's releases only the unstable one has it. Its packages want newer libraries than the system's, the C library too: so
all of them are unpacked below the cache (270 MB), and their own linker starts the server. Nothing of the system is changed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from typing_extensions import override

from cdc_assets_tests.programs.apt import AptError, run
from cdc_assets_tests.programs.wanted import Program, unpacked

_KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class MySql(Program):
    """MariaDB's packages have a command of that name too."""

    @override
    def is_here(self) -> bool:
        return find_mysqld() is not None


MYSQL = MySql("MySQL's server", ("mysqld",), ("mysql-server-core",), release="sid")


def find_mysqld() -> str | None:
    """The first `mysqld` on the PATH that is MySQL's, or the unpacked one."""
    for folder in os.get_exec_path():
        if found := shutil.which("mysqld", path=folder):
            told = subprocess.run([found, "--no-defaults", "--version"], capture_output=True, text=True, check=False).stdout
            if "MariaDB" not in told:
                return found
    return str(brought) if (brought := unpacked() / "mysql" / "bin" / "mysqld").exists() else None


def mysqld() -> str:
    """Its path.

    Raises:
        ProgramMissingError: there is none.
    """
    MYSQL.require()
    found = find_mysqld()
    assert found
    return found


def unpack() -> None:
    """Fetch and unpack it.

    Raises:
        AptError: this system asks no mirror of Debian's, or apt failed.
    """
    folder, mirror = unpacked() / "mysql", _mirror()
    apt, command = folder / "apt", folder / "bin" / "mysqld"
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("lists/partial", "archives/partial"):
        (apt / name).mkdir(parents=True)
    (apt / "sources.list").write_text(f"deb [signed-by={_KEYS}] {mirror} {MYSQL.release} main\n", encoding="utf-8")
    # An empty state: every library is missing, so every one comes along.
    (apt / "status").touch()
    files = {"State": apt, "State::lists": apt / "lists", "State::status": apt / "status", "Cache": apt, "Log": apt}
    files |= {"Etc::sourcelist": apt / "sources.list", "Etc::sourceparts": Path("/dev/null")}
    options = [text for key, value in files.items() for text in ("-o", f"Dir::{key}={value}")]
    get = ("apt-get", *options, "-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=", "-qq")
    run(*get, "update")
    run(*get, "-y", "-d", "--no-install-recommends", "install", *MYSQL.packages)
    for package in sorted((apt / "archives").glob("*.deb")):
        run("dpkg", "-x", package, folder / "root")
    shutil.rmtree(apt)
    command.parent.mkdir()
    # Whoever looks for it finds it when it is known to run.
    new = command.with_name("new")
    new.write_text(_script(folder / "root"), encoding="utf-8")
    new.chmod(0o755)
    run(new, "--no-defaults", "--version")
    new.rename(command)


def _mirror() -> str:
    """The address at which this system asks for Debian's packages."""
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
