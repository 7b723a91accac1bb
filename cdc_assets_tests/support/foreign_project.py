"""A Dagster project of somebody else that has one of our sources as a Component; its runs are its own, with Dagster's defaults.

It has a top-level module called `spark`, as a project may. Ours is installed from its wheel, in an environment of the
project's own that sees the dependencies of this one. `dagster` and `dg` run as processes, from the project's folder.
"""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from cdc_assets.launcher import uv_wheel
from cdc_assets.launcher.environment import cache_folder

ROOT = Path(__file__).parents[2]
_BUILD = "from setuptools.build_meta import build_wheel; print(build_wheel({folder!r}))"
_CREATE = "from create_dagster.cli import main; main()"
_HAS_A_SPARK = """

import spark

assert spark.WHOSE == "the project's"
"""
COMPONENT = "type: cdc_assets.CdcSource\nattributes: {{registry_file: {file}}}\n"


@dataclass(frozen=True)
class ForeignProject:
    """Its folder, the Python that has its dependencies, and what its processes find in their environment."""

    folder: Path
    python: Path
    variables: dict[str, str]

    @property
    def defs(self) -> Path:
        """Where its definitions are."""
        return self.folder / "src" / self.folder.name / "defs"

    def add_source(self, name: str, text: str) -> None:
        """As a Component's instance."""
        place = self.defs / name
        place.mkdir()
        (place / "defs.yaml").write_text(COMPONENT.format(file=f"{name}.yaml"))
        (place / f"{name}.yaml").write_text(text)

    def environment(self, **more: str) -> dict[str, str]:
        """Nothing of the tests' own; the project's folder first."""
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("CDC_", "DAGSTER_", "PYTHON", "VIRTUAL_ENV"))}
        home = {"DAGSTER_HOME": str(self.folder / "dagster"), "CDC_HOME": str(self.folder / "cdc"), "NO_COLOR": "1"}
        path = f"{self.python.parent}{os.pathsep}{kept['PATH']}"
        # As the editable install of `uv sync` has it, for which all dependencies would be downloaded.
        installed = {"PYTHONPATH": str(self.folder / "src")}
        return {**kept, **installed, "PATH": path, **home, "COLUMNS": "200", **self.variables, **more}

    def python_module(self, *arguments: str, timeout: float = 300, **variables: str) -> subprocess.CompletedProcess[str]:
        """`python -m ARGUMENTS` in the project's folder."""
        command = [str(self.python), "-m", *arguments]
        return self.run(command, timeout=timeout, **variables)

    def run(self, command: list[str], *, timeout: float = 300, **variables: str) -> subprocess.CompletedProcess[str]:
        """Any command in the project's folder."""
        environment = self.environment(**variables)
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )

    @contextmanager
    def instance(self) -> Iterator[dg.DagsterInstance]:
        """Where its runs left their events."""
        with dg.DagsterInstance.from_config(str(self.folder / "dagster")) as found:
            yield found


def build_wheel(folder: Path) -> Path:
    """From what the repository has, copied: a build leaves its own folders where it runs."""
    sources = folder / "repository"
    sources.mkdir(parents=True)
    for name in ("cdc_assets", "spark"):
        shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "uv.lock", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    command = [sys.executable, "-c", _BUILD.format(folder=str(folder))]
    done = subprocess.run(command, cwd=sources, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def create_environment(folder: Path, wheel: Path, *, without: tuple[str, ...] = (), more: tuple[str, ...] = ()) -> Path:
    """A virtual environment with nothing but the wheel and what is asked for by `more`, which the registry of packages gives;
    this one's packages, less those `without`, are behind it. Its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    python, (packages,) = folder / "bin" / "python", folder.glob("lib/python3*/site-packages")
    # Of those that Debian's Python names, some are not there.
    behind = [place for place in map(Path, site.getsitepackages()) if place.is_dir()]
    if without:
        behind = [_copy_links(behind, folder / "behind", without)]
    (packages / "beside.pth").write_text("".join(f"{place}\n" for place in behind))
    _install(python, "--offline", "--no-deps", str(wheel))
    if more:
        _install(python, "--only-binary", ":all:", *more)
    return python


def _install(python: Path, *arguments: str) -> None:
    uv = uv_wheel.fetch(ROOT, cache_folder(dict(os.environ)), dict(os.environ))
    command = [str(uv), "pip", "install", "--python", str(python), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _copy_links(places: list[Path], target: Path, without: tuple[str, ...]) -> Path:
    target.mkdir()
    for entry in (entry for place in places for entry in place.iterdir() if not entry.name.startswith(without)):
        (target / entry.name).symlink_to(entry)
    return target


def create_project(folder: Path, *, python: Path, **variables: str) -> ForeignProject:
    """Made by `create-dagster`; the folder's name is its package's."""
    command = [sys.executable, "-c", _CREATE, "project", "--no-uv-sync", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "dagster").mkdir()
    (folder / "dagster" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    (folder / "src" / "spark.py").write_text('WHOSE = "the project\'s"\n')
    definitions = folder / "src" / folder.name / "definitions.py"
    definitions.write_text(definitions.read_text() + _HAS_A_SPARK)
    return ForeignProject(folder, python, variables)
