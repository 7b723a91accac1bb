"""Bring what the tests need: `python -m cdc_assets_tests.programs [--dry-run]`.

It exits 0 also where it cannot: the tests of what is missing are skipped.

--dry-run prints what would be done for each program, and does nothing.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys

from cdc_assets_tests.programs import apt
from cdc_assets_tests.programs.wanted import PROGRAMS, Program, unpacked

_NO_APT = "this system has no apt-get and dpkg; install it with your system's packages"


def plan() -> tuple[str, list[Program]]:
    """What is missing, and the way to bring it: `apt` into the system, `unpack` below the cache, or `skip`."""
    missing = [program for program in PROGRAMS if not program.is_here()]
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        return "skip", missing
    return ("apt" if os.geteuid() == 0 else "unpack"), missing


def describe(way: str, program: Program) -> str:
    """One line for people."""
    packages = " ".join(program.packages)
    ways = {
        "apt": f"apt-get install --no-install-recommends {packages}",
        "unpack": f"{packages} unpacked below {unpacked()}, without root",
        "skip": f"its tests are skipped: {_NO_APT}",
    }
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
        if way == "skip":
            failed = {program.title: _NO_APT for program in missing}
        else:
            failed = (apt.install if way == "apt" else apt.unpack)(missing) if missing else {}
        for program in missing:
            if reason := failed.get(program.title):
                print(f"cdc: {program.title} is missing, its tests are skipped: {reason}", flush=True)
                program.reason_file().write_text(reason, encoding="utf-8")
            else:
                program.reason_file().unlink(missing_ok=True)


def main() -> None:
    """Plan, then bring."""
    way, missing = plan()
    if "--dry-run" in sys.argv[1:]:
        for program in PROGRAMS:
            print(describe(way, program) if program in missing else f"{program.title}: here")
    elif missing:
        bring(way, missing)


if __name__ == "__main__":
    main()
