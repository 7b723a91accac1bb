"""Bring what the tests need: `python -m cdc_assets_tests.programs [--dry-run] [COMMAND]...`.

With commands, such as `mariadbd`, only the programs that have one of them. It exits 0 also where it cannot: the tests of what is
missing are skipped.

--dry-run prints what would be done for each program, and does nothing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from collections.abc import Sequence

from cdc_assets.launcher.uv_wheel import LauncherError
from cdc_assets_tests.programs import apt, mysql, newer_mariadb, secantus
from cdc_assets_tests.programs.apt import AptError
from cdc_assets_tests.programs.wanted import CHROMIUM, LOCALES, MARIADB, Program, unpacked
from cdc_assets_tests.programs.whole_java import WHOLE_JAVA

PROGRAMS = (MARIADB, CHROMIUM, LOCALES, WHOLE_JAVA, mysql.MYSQL, newer_mariadb.NEWER_MARIADB, secantus.SECANTUS)
_NO_APT = "this system has no apt-get and dpkg; install it with your system's packages"


def plan(programs: Sequence[Program]) -> tuple[str, list[Program]]:
    """What is missing, and the way to bring it: `apt` into the system, `unpack` below the cache, or `skip`."""
    missing = [program for program in programs if not program.is_here()]
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        return "skip", missing
    return ("apt" if os.geteuid() == 0 else "unpack"), missing


def describe(way: str, program: Program) -> str:
    """One line for people."""
    packages = " ".join(program.packages)
    if program == secantus.SECANTUS:
        return f"{program.title}: {packages} of {program.release} into an environment of its own"
    ways = {
        "apt": f"apt-get install --no-install-recommends {packages}",
        "unpack": f"{packages} unpacked below {unpacked()}, without root",
        "skip": f"its tests are skipped: {_NO_APT}",
    }
    if program.release and way != "skip":
        return f"{program.title}: {packages} of Debian's {program.release} unpacked below {unpacked()}"
    return f"{program.title}: {ways[way]}"


def bring(way: str, missing: list[Program]) -> None:
    """Bring it, and keep for each program that cannot be brought why."""
    folder = unpacked() / "missing"
    folder.mkdir(parents=True, exist_ok=True)
    with (unpacked() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another launch may have brought it while this one waited.
        missing = [program for program in missing if not program.is_here()]
        for program in missing:
            print(f"cdc: {describe(way, program)}", flush=True)
        failed = _fetch(way, missing)
        for program in missing:
            if reason := failed.get(program.title):
                print(f"cdc: {program.title} is missing, its tests are skipped: {reason}", flush=True)
                program.reason_file().write_text(reason, encoding="utf-8")
            else:
                program.reason_file().unlink(missing_ok=True)


def _fetch(way: str, missing: Sequence[Program]) -> dict[str, str]:
    """Why not, by title."""
    failed: dict[str, str] = {}
    if secantus.SECANTUS in missing:
        try:
            secantus.install()
        except LauncherError as error:
            failed[secantus.SECANTUS.title] = str(error)
    of_debian = [program for program in missing if program != secantus.SECANTUS]
    if way == "skip":
        return failed | {program.title: _NO_APT for program in of_debian}
    of_system = [program for program in of_debian if not program.release]
    failed |= (apt.install if way == "apt" else apt.unpack)(of_system) if of_system else {}
    for program, unpack in ((mysql.MYSQL, mysql.unpack), (newer_mariadb.NEWER_MARIADB, newer_mariadb.unpack)):
        if program in missing:
            try:
                unpack()
            except AptError as error:
                failed[program.title] = str(error)
    return failed


def main(arguments: Sequence[str]) -> None:
    """Plan, then bring."""
    asked = {argument for argument in arguments if argument != "--dry-run"}
    programs = [program for program in PROGRAMS if not asked or not asked.isdisjoint(program.commands)]
    way, missing = plan(programs)
    if "--dry-run" in arguments:
        for program in programs:
            print(describe(way, program) if program in missing else f"{program.title}: here")
    elif missing:
        bring(way, missing)


if __name__ == "__main__":
    main(sys.argv[1:])
