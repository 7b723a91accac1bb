"""Reads and writes `jars.lock.toml`: for each set its jars with sha256 and size, and where they come from.

The format is a small subset of TOML (written here, read by `tomllib` where Python has it, line by line on 3.10).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cdc_assets.stack.errors import StackError

LOCK = Path(__file__).with_name("jars.lock.toml")
_JAR = re.compile(r'\{ gav = "([^"]+)", sha256 = "([0-9a-f]{64})", size = (\d+), licence = "([^"]*)" \},')


@dataclass(frozen=True)
class Jar:
    """One locked file; `gav` is `group:artifact:version`, of what is no jar `group:artifact:packaging:classifier:version`."""

    gav: str
    sha256: str
    size: int
    licence: str = ""

    @property
    def path(self) -> PurePosixPath:
        """Its place in a Maven repository, and in our cache."""
        group, artifact, *other, version = self.gav.split(":")
        packaging, suffix = (other[0], f"-{other[1]}") if other else ("jar", "")
        return PurePosixPath(*group.split("."), artifact, version, f"{artifact}-{version}{suffix}.{packaging}")


@dataclass(frozen=True)
class JarLock:
    """All sets of jars that are locked, and the repository they come from."""

    repository: str
    sets: Mapping[str, tuple[Jar, ...]]

    def jars(self, names: Iterable[str]) -> list[Jar]:
        """The jars of these sets, each file once."""
        return list({jar.gav: jar for name in names for jar in self.sets[name]}.values())


def read_lock(file: Path = LOCK) -> JarLock:
    """The committed lock.

    Raises:
        StackError: naming the line that cannot be read.
    """
    repository = ""
    sets: dict[str, list[Jar]] = {}
    current: list[Jar] | None = None
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#") or text == "]":
            continue
        if text.startswith("repository = "):
            repository = text.split('"')[1]
        elif text.endswith("= ["):
            current = sets.setdefault(text.split('"')[1], [])
        elif (match := _JAR.fullmatch(text)) and current is not None:
            current.append(Jar(match[1], match[2], int(match[3]), match[4]))
        else:
            raise StackError("jars", f"{file}:{number} is not a line of a jar lock: {text}", "git checkout " + file.name)
    return JarLock(repository, {name: tuple(jars) for name, jars in sets.items()})


def write_lock(lock: JarLock, file: Path = LOCK) -> None:
    """Write it as TOML, sorted, so that a new lock is a readable diff."""
    lines = [
        "# Written by `python -m cdc_assets.stack.jars.lock` from sets.py; not edited by hand.",
        f'repository = "{lock.repository}"',
    ]
    for name, jars in sorted(lock.sets.items()):
        lines += ["", f'"{name}" = [']
        lines += [_line(jar) for jar in sorted(jars, key=lambda jar: jar.gav)]
        lines += ["]"]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _line(jar: Jar) -> str:
    licence = jar.licence.replace('"', "'")
    return f'  {{ gav = "{jar.gav}", sha256 = "{jar.sha256}", size = {jar.size}, licence = "{licence}" }},'
