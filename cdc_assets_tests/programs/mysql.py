"""MySQL's server: the `mysqld` on the PATH, or Debian's of another release: only the unstable one has it (270 MB unpacked)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from typing_extensions import override

from cdc_assets_tests.programs import debian_release
from cdc_assets_tests.programs.wanted import Program, unpacked


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
    debian_release.unpack_release(MYSQL, unpacked() / "mysql", _prepare)


def _prepare(root: Path) -> Path:
    binary, start = root / "usr" / "sbin" / "mysqld", root / "mysqld"
    start.write_text(debian_release.script(root, binary, f"--basedir={root / 'usr'}"), encoding="utf-8")
    start.chmod(0o755)
    return start
