"""Debian's packages: installed as root, or unpacked below the cache by anybody else.

Without root, apt keeps its lists and what it fetches in our folder, and looks at the system's own state to know what is
missing. It checks signatures as ever. `dpkg -x` unpacks; no script of a package runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from cdc_assets_tests.programs.wanted import Program, script, unpacked

_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>/usr/share/fonts</dir><dir>{folder}/root/usr/share/fonts</dir><cachedir>{folder}/fonts</cachedir></fontconfig>
"""
# What some images do after apt has run needs root.
_CONFIGURATION = "#clear APT::Update::Post-Invoke;\n#clear DPkg::Post-Invoke;\n"
_APT_TIMEOUT = 1800


class AptError(Exception):
    """A command of apt or dpkg failed; the text is its last line."""


def run(*arguments: str | Path) -> str:
    """Run apt-get or dpkg in silence; what it says.

    Raises:
        AptError: with the last line that it printed, or when it takes half an hour.
    """
    command = [str(argument) for argument in arguments]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_APT_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise AptError(f"{command[0]} has not ended after {_APT_TIMEOUT} s") from None
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        errors = [line for line in said if line.startswith("E:")]
        raise AptError(f"{command[0]}: {(errors or said or ['it printed nothing'])[-1]}")
    return done.stdout


def install(programs: Sequence[Program]) -> dict[str, str]:
    """As root, into the system; returns why not, by title."""
    _try_update("apt-get", "-qq")
    get = ("apt-get", "-qq")
    return _each(programs, lambda program: run(*get, "install", "-y", "--no-install-recommends", *_known(get, program)))


def unpack(programs: Sequence[Program]) -> dict[str, str]:
    """Below the cache, with every library that the system lacks; returns why not, by title."""
    folder = unpacked()
    apt = folder / "apt"
    for name in ("lists/partial", "archives/partial"):
        (apt / name).mkdir(parents=True, exist_ok=True)
    (apt / "apt.conf").write_text(_CONFIGURATION, encoding="utf-8")
    own = {"Dir::State": apt, "Dir::State::lists": apt / "lists", "Dir::Cache": apt, "Dir::Log": apt}
    options = [text for key, value in own.items() for text in ("-o", f"{key}={value}")]
    get = ("apt-get", "-c", str(apt / "apt.conf"), *options, "-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=", "-qq")
    _try_update(*get)
    failed = _each(programs, lambda program: _unpack_one(get, program))
    shutil.rmtree(apt)
    return failed


def _unpack_one(get: Sequence[str], program: Program) -> None:
    folder = unpacked()
    archives = folder / "apt" / "archives"
    run(*get, "-y", "-d", "--no-install-recommends", "install", *_known(get, program))
    for package in sorted(archives.glob("*.deb")):
        run("dpkg", "-x", package, folder / "root")
        package.unlink()
    _turn_links(folder / "root")
    (folder / "fonts.conf").write_text(_FONTS.format(folder=folder), encoding="utf-8")
    (folder / "bin").mkdir(exist_ok=True)
    for name in program.commands:
        # Debian's own `chromium` is a script that knows /usr/lib only.
        places = (f"usr/lib/{name}/{name}", f"usr/sbin/{name}", f"usr/bin/{name}")
        binary = next((file for place in places if (file := folder / "root" / place).is_file()), None)
        if binary is None:
            # It is the system's own: the package was there already.
            continue
        start = folder / "bin" / name
        start.write_text(script(program, binary, folder), encoding="utf-8")
        start.chmod(0o755)
        if not is_script(binary):
            # It finds all its libraries.
            run(start, "--version")


def _known(get: Sequence[str], program: Program) -> list[str]:
    """Its packages, of alternatives the first that apt knows; the last where it knows none."""
    return [_first_known(get, package.split(" | ")) for package in program.packages]


def _first_known(get: Sequence[str], names: Sequence[str]) -> str:
    for name in names[:-1]:
        # Of one that it knows by its name alone it says nothing, and ends well.
        with suppress(AptError):
            if run("apt-cache", *get[1:], "show", "--no-all-versions", name):
                return name
    return names[-1]


def _turn_links(root: Path) -> None:
    """Let the links of a Java to its own settings below /etc lead there in this folder."""
    for link in (root / "usr" / "lib" / "jvm").rglob("*"):
        if link.is_symlink() and (target := link.readlink()).is_absolute() and (inside := root / str(target)[1:]).exists():
            link.unlink()
            link.symlink_to(inside)


def is_script(file: Path) -> bool:
    """Whether a shell runs it."""
    with file.open("rb") as content:
        return content.read(2) == b"#!"


def _try_update(*get: str) -> None:
    try:
        run(*get, "update")
    except AptError as error:
        # One repository of many may be away: whether the packages can be had, the next command says.
        print(f"cdc: {error}", flush=True)


def _each(programs: Sequence[Program], bring: Callable[[Program], None]) -> dict[str, str]:
    failed = {}
    for program in programs:
        try:
            bring(program)
        except AptError as error:
            failed[program.title] = str(error)
    return failed
