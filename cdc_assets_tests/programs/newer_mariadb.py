"""A MariaDB of 11.4 or newer, whose row events of a transaction have one position: Debian's of another release (11.8)."""

from __future__ import annotations

from pathlib import Path

from typing_extensions import override

from cdc_assets_tests.programs import debian_release
from cdc_assets_tests.programs.wanted import Program, unpacked

_OWN = ("sbin/mariadbd", "bin/my_print_defaults", "bin/resolveip")


class NewerMariaDb(Program):
    """Here when it is unpacked: the system's own server is another one."""

    @override
    def is_here(self) -> bool:
        return (_folder() / "bin" / self.commands[0]).exists()


NEWER_MARIADB = NewerMariaDb(
    "MariaDB's server 11.8", ("mariadbd-11.8",), ("mariadb-server-core", "mariadb-client-core"), release="trixie"
)


def newer_mariadb() -> tuple[str, str]:
    """Its `mariadbd`, and its `mariadb-install-db`.

    Raises:
        ProgramMissingError: there is none.
    """
    NEWER_MARIADB.require()
    usr = _folder() / "root" / "usr"
    return str(usr / _OWN[0]), str(usr / "bin" / "mariadb-install-db")


def unpack() -> None:
    """Fetch and unpack it.

    Raises:
        AptError: this system asks no mirror of Debian's, or apt failed.
    """
    debian_release.unpack_release(NEWER_MARIADB, _folder(), _prepare)


def _folder() -> Path:
    return unpacked() / "mariadb-11.8"


def _prepare(root: Path) -> Path:
    """In place of each binary that the script of its set-up calls, one that starts it."""
    usr = root / "usr"
    for name in _OWN:
        start, binary = usr / name, (usr / name).with_suffix(".elf")
        start.rename(binary)
        options = (f"--basedir={usr}",) if name == _OWN[0] else ()
        start.write_text(debian_release.script(root, binary, *options), encoding="utf-8")
        start.chmod(0o755)
    return usr / _OWN[0]
